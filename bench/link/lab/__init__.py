"""Links between two network namespaces: emulated over TUN, or real netem. Linux, root."""
