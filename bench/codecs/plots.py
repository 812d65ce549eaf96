"""One page: sizes through a rate step, a gaze jump, a loss, and aim, for each clip and codec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COLOURS = {"h264": "#0b7285", "vp8": "#e8590c", "vp9": "#5f3dc4", "av1": "#868e96"}


def plot(results: dict[str, Any], path: Path) -> None:
    """Needs matplotlib (extra `bench`). Raises OSError."""
    import matplotlib as mpl  # noqa: PLC0415 - slow, and an extra

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    clips = results["clips"]
    figure, axes = plt.subplots(
        len(clips), 4, figsize=(17, 3.6 * len(clips)), squeeze=False, layout="constrained"
    )
    for row, (name, found) in zip(axes, clips.items(), strict=True):
        for codec, measures in found.items():
            colour = COLOURS.get(codec, "black")
            row[0].plot(measures["rate"].ratios, color=colour, label=codec, linewidth=1)
            if "gaze" in measures:
                short = measures["gaze"].short_db
                row[1].plot(range(1, len(short) + 1), short, "o-", color=colour, markersize=3)
                for bar in measures["aim"]:
                    row[3].plot(bar.outside_db, bar.inside_db, "o", color=colour, label=codec)
            row[2].plot(measures["recovery"].shown_db, color=colour, linewidth=1)
        any_codec = next(iter(found.values()))
        step, key = any_codec["rate"].step_at, any_codec["rate"].keyframe_at
        row[0].plot([0, step, step, 2 * step], [1, 1, 0.375, 0.375], "k--", linewidth=0.8)
        row[0].axvline(key, color="black", linewidth=0.5, linestyle=":")
        row[0].set(title=f"{name}: picture size", xlabel="picture", ylabel="over the high share")
        row[0].set_ylim(0, 4)
        row[0].legend(fontsize=8, frameon=False)
        row[1].axhline(1.0, color="black", linewidth=0.8, linestyle="--")
        row[1].set(title="after a gaze jump", xlabel="picture", ylabel="dB short of steady")
        row[2].set(title="one picture lost", xlabel="picture", ylabel="PSNR of what is shown, dB")
        row[3].axhline(3.0, color="black", linewidth=0.8, linestyle="--")
        row[3].axvline(-1.5, color="black", linewidth=0.8, linestyle="--")
        row[3].set(title="aim", xlabel="outside, dB", ylabel="inside, dB")
        for axis in row:
            axis.grid(visible=True, alpha=0.25)
    figure.savefig(path, dpi=110)
    plt.close(figure)
