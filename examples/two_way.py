"""Two ends in one program, both sending and hearing, with a tag that moves bandwidth."""

import asyncio

import numpy as np

import limen


async def talk(session: limen.Session, mine: str, theirs: str) -> int:
    voice = session.publish(mine, limen.Audio(hold=1.0))
    ears = session.subscribe(theirs, "audio")
    await ears.ready()
    session.tag("hint", 0.9, track=theirs, half_life=2.0)  # sent to them: this matters to me now
    tone = np.sin(np.arange(960) * 2 * np.pi * 500 / 48000)
    for _ in range(50):
        await voice.send(tone, sample_rate=48000, captured=limen.now())
        await asyncio.sleep(0.02)
    await voice.finish()
    return sum([1 async for block in ears if block.kind != "silence"])


async def main() -> None:
    async with limen.serve(lambda session: talk(session, "down", "up")) as server:
        async with limen.connect("127.0.0.1", server.port, fingerprint=server.fingerprint) as me:
            print(await talk(me, "up", "down"), "blocks of 20 ms heard")


asyncio.run(main())
