"""Checks a trace that `clump lab trace --perfetto` wrote with the classes that Perfetto generates
from its own definitions (PyPI: perfetto).

    python3 oracles/check_perfetto.py t.perfetto

Every slice ends on its track in the order of nesting, times never go back, every event has a name
of its own or an interned one, and each flow that ends has begun. Prints the counts; exits with 1
and the reason otherwise.
"""

import sys
from collections import Counter

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema


def check(data):
    trace = schema.Trace()
    trace.ParseFromString(data)
    if trace.ByteSize() != len(data):
        raise ValueError("fields that Perfetto does not know")
    names, tracks, depth, last = {}, set(), Counter(), 0
    begun, ended, counts = set(), set(), Counter()
    event_type = schema.TrackEvent.Type
    for packet in trace.packet:
        if packet.HasField("interned_data"):
            names.update((entry.iid, entry.name) for entry in packet.interned_data.event_names)
        if packet.HasField("track_descriptor"):
            tracks.add(packet.track_descriptor.uuid)
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        if event.track_uuid not in tracks:
            raise ValueError(f"track {event.track_uuid} is not described")
        counts[event_type.Name(event.type)] += 1
        if event.type == event_type.TYPE_COUNTER:
            continue
        if packet.timestamp < last:
            raise ValueError(f"time goes back at {packet.timestamp}")
        last = packet.timestamp
        if event.type == event_type.TYPE_SLICE_END:
            depth[event.track_uuid] -= 1
            if depth[event.track_uuid] < 0:
                raise ValueError("a slice ends that has not begun")
            continue
        if not event.name and event.name_iid not in names:
            raise ValueError(f"name {event.name_iid} is not interned")
        depth[event.track_uuid] += event.type == event_type.TYPE_SLICE_BEGIN
        begun.update(event.flow_ids)
        ended.update(event.terminating_flow_ids)
    counts["flows"] = len(begun & ended)
    counts["flows without an end"] = len(begun - ended)
    if ended - begun:
        raise ValueError(f"{len(ended - begun)} flows end that have not begun")
    return counts


if __name__ == "__main__":
    try:
        with open(sys.argv[1], "rb") as file:
            print(dict(check(file.read())))
    except ValueError as error:
        sys.exit(f"{sys.argv[1]}: {error}")
