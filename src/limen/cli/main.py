"""The `limen` command: its subcommands, and the one place where a failure becomes words.

Whatever goes wrong ends as one line on standard error and an exit code: 1 for what failed, 2 for
a command line that makes no sense, 70 for a fault of limen's own, 130 after Ctrl-C. A traceback
is for developers; they get it with LIMEN_DEBUG=1.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import typer


def make_app() -> typer.Typer:
    """All subcommands; each module brings the functions it registers."""
    import typer  # noqa: PLC0415 - an extra; `main` has checked that it is there

    from . import bench  # noqa: PLC0415
    from .commands import recv, root, samples, send, version  # noqa: PLC0415
    from .demo import demo  # noqa: PLC0415

    app = typer.Typer(
        name="limen",
        help="Real-time media over QUIC that spends a scarce link on what matters at this moment.",
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(root)
    app.command("send")(send)
    app.command("recv")(recv)
    app.command("demo")(demo)
    app.command("samples")(samples)
    app.command("version")(version)
    app.add_typer(bench.app, name="bench")
    return app


def main() -> None:
    """Run the command line and exit. The entry point of the package."""
    missing = [name for name in ("typer", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"limen: the command line needs {' and '.join(missing)}: pip install 'limen[cli]'\n"
        )
        raise SystemExit(2)
    _quiet_logs()
    code = run(sys.argv[1:])
    if code > 128:
        from .running import leave_now  # noqa: PLC0415

        leave_now(code)
    raise SystemExit(code)


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    import typer  # noqa: PLC0415

    from .failures import Interrupted, explain  # noqa: PLC0415

    command: Any = typer.main.get_command(make_app())
    try:
        result = command.main(args=arguments, prog_name="limen", standalone_mode=False)
    except typer.Exit as stop:
        return stop.exit_code
    except Interrupted as stop:
        return stop.code
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Exception as error:
        if os.environ.get("LIMEN_DEBUG"):
            raise
        message, code = explain(error)
        sys.stderr.write(f"limen: {message}\n")
        return code
    return result if isinstance(result, int) else 0


def _quiet_logs() -> None:
    """Libraries log what the command says itself, with tracebacks; those are for developers."""
    if not os.environ.get("LIMEN_DEBUG"):
        handler = logging.StreamHandler()
        handler.setFormatter(_OneLine())
        logging.basicConfig(handlers=[handler], level=logging.WARNING)


class _OneLine(logging.Formatter):
    """A record without its traceback, but with the error's own words."""

    def format(self, record: logging.LogRecord) -> str:
        text = f"limen: {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            text += f": {type(error).__name__}: {error} (LIMEN_DEBUG=1 shows where)"
        return " ".join(text.split())


if __name__ == "__main__":
    main()
