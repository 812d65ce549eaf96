"""Two ends, both sending and receiving, with a tag that moves bandwidth."""

import asyncio

import numpy as np

import limen


async def talk(session: limen.Session, mine: str, theirs: str) -> int:
    """Send a second of tone as `mine`, hear `theirs`; returns the blocks heard."""
    voice = session.publish(mine, limen.Audio(hold=1.0))
    ears = session.subscribe(theirs, "audio")
    await ears.ready()
    session.tag("hint", 0.9, track=theirs, half_life=2.0)  # their sound matters to me now
    for start in np.arange(0, 1, 0.02):
        tone = np.sin(2 * np.pi * 440 * (start + np.arange(960) / 48000)).astype(np.float32)
        await voice.send(tone, sample_rate=48000, captured=limen.now())
        await asyncio.sleep(0.02)
    await voice.finish()
    return sum([1 async for block in ears if block.kind == "played"])


async def main() -> None:
    """Serve and connect in one process; over a network these are two programs."""
    async with (
        limen.serve(lambda session: talk(session, "down", "up")) as server,
        limen.connect("127.0.0.1", server.port, fingerprint=server.fingerprint) as me,
    ):
        print(await talk(me, "up", "down"), "blocks of 20 ms heard")


if __name__ == "__main__":
    asyncio.run(main())
