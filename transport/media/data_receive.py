"""Raw objects in, as soon as each is whole."""

from __future__ import annotations

from typing import Any

from ...scheduler.types import ObjectId
from ..events import ObjectReceived
from .kinds import DataFrame
from .subscription import Receiver


class DataReceiver(Receiver[DataFrame]):
    """Hands objects on unchanged."""

    def on_object(self, received: ObjectReceived) -> None:
        """See Receiver."""
        header = received.header
        frame = DataFrame(
            payload=received.payload,
            captured=header.captured,
            arrived=received.arrived,
            delay=self.session.delay_of(header.captured, received.arrived),
            id=header.id,
            importance=header.importance,
        )
        self.out.push(frame, len(received.payload))
        self.out.check_settled()

    def on_gone(self, object_id: ObjectId, now: float) -> None:
        """See Receiver."""
        del object_id, now
        self.out.counts["gone"] += 1
        self.out.check_settled()

    def stats(self) -> dict[str, Any]:
        """See Receiver."""
        return {"media": "data", "objects": self.objects}
