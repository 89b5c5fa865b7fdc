#!/usr/bin/env python3
"""Reads a profile as a viewer of traces would and prints it a line an event:

    LANE | KIND | NAME | names of the events around it, outermost first

and for each program that ran the percentage of its time that its steps take. Fails where the file
is not JSON, where events of a lane lie in each other without one being inside, or a lane has no name.
"""

import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        trace = json.load(file)
    assert trace["otherData"]["lost"] == 0
    names, lanes = {}, {}
    for event in trace["traceEvents"]:
        lane = event["pid"], event["tid"]
        if event["ph"] == "M":
            names[lane, event["name"]] = event["args"].get("name")
        else:
            assert event["ph"] == "X" and event["ts"] >= 0 and event["dur"] >= 0, event
            lanes.setdefault(lane, []).append(event)
    for lane in sorted(lanes):
        title = names[(lane[0], 0), "process_name"] + "/" + names[lane, "thread_name"]
        # Of equal times the later in the file is the outer one.
        order = sorted(enumerate(lanes[lane]),
                       key=lambda e: (round(e[1]["ts"] * 1000), -round(e[1]["dur"] * 1000), -e[0]))
        around = []
        for _, event in order:
            start = round(event["ts"] * 1000)
            end = start + round(event["dur"] * 1000)
            while around and around[-1][0] <= start and around[-1][0] < end:
                around.pop()
            assert not around or end <= around[-1][0], (title, event, around[-1])
            outer = [e["name"] for _, e in around]
            print(" | ".join([title, event["cat"], event["name"], " ".join(outer),
                              event["args"].get("site", "").split("/")[-1].split(":")[0],
                              str(event["args"].get("bytes", 0))]))
            around.append((end, event))
        hosts = [e for l, events in lanes.items() if l[0] == 1 for e in events]
        for event in lanes[lane] if lane[0] == 2 else []:
            assert any(e["name"] == event["name"] and e["ts"] <= event["ts"] and
                       event["ts"] + event["dur"] <= e["ts"] + e["dur"] + 0.002
                       for e in hosts), event
        for run in (e for _, e in order if e["cat"] == "program"):
            inner = [e for _, e in order if e["cat"] in ("kernel", "move", "routine") and
                     run["ts"] <= e["ts"] and e["ts"] + e["dur"] <= run["ts"] + run["dur"]]
            print(f"{title} covers {100 * sum(e['dur'] for e in inner) / max(run['dur'], 1e-9):.0f}")


main()
