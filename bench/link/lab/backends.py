"""What can carry a profile between two namespaces on this machine, found by trying.

Backends, in order of preference:

- `kernel`: netem of this kernel, in a third namespace between the two.
- `uml`: netem of a user-mode-linux between the two, for kernels without.
- `tun`: the link model driving two TUN devices (`tun.py`).

A profile whose rate changes goes over `tun` before `uml`: `tc` inside user-mode-linux takes 0.26 to
0.4 s to start and change a rate (measured), longer than a queue takes to fill.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ..profile import LinkProfile
from .initrd import missing_parts
from .namespace import LabError, Namespace, why_not
from .tc import unsupported
from .wire import NamespaceShell

Backend = Literal["kernel", "uml", "tun"]
BACKENDS: tuple[Backend, ...] = ("kernel", "uml", "tun")


def probe() -> dict[Backend, str | None]:
    """Each backend, and why it cannot be had here (None: it can)."""
    reason = why_not()
    if reason is not None:
        return {"kernel": reason, "uml": reason, "tun": reason}
    tun = None if Path("/dev/net/tun").exists() else "there is no /dev/net/tun"
    missing = missing_parts()
    uml = tun or (f"missing: {' '.join(missing)} (apt install them)" if missing else None)
    return {"kernel": _probe_kernel(), "uml": uml, "tun": tun}


def _probe_kernel() -> str | None:
    namespace = Namespace()
    try:
        shell = NamespaceShell(namespace)
        shell.run("ip link add probe type veth peer name probep && ip link set probe up")
        shell.run("tc qdisc add dev probe root netem delay 1ms")
        shell.run("tc qdisc add dev probep ingress")
    except LabError as error:
        return f"this kernel has no netem ({str(error).splitlines()[-1]})"
    finally:
        namespace.close()
    return None


def choose_backend(profile: LinkProfile, wanted: str = "auto") -> Backend:
    """The backend for a profile. Raises LabError when there is none, with the reasons.

    `wanted`: one of `BACKENDS`, or `auto` for the first that can be had in the module's order.
    """
    reasons = dict(probe())
    for spec in (profile.down, profile.up):
        cannot = unsupported(spec)
        for name in ("kernel", "uml"):
            if cannot is not None and reasons[name] is None:
                reasons[name] = f"real netem cannot do {cannot}"
    if wanted == "auto":
        steps = any(len(spec.steps) > 1 for spec in (profile.down, profile.up))
        for name in ("kernel", "tun", "uml") if steps else BACKENDS:
            if reasons[name] is None:
                return name
        raise LabError("; ".join(dict.fromkeys(str(reason) for reason in reasons.values())))
    for name in BACKENDS:
        if name == wanted:
            if reasons[name] is not None:
                raise LabError(f"backend {name}: {reasons[name]}")
            return name
    raise LabError(f"a backend is auto, {', '.join(BACKENDS)}; got {wanted!r}")
