"""Both ends of each transport that a comparison puts on the link, as processes of their own."""
