"""What was asked, when, and what became of it; and which faults were in force meanwhile."""

import array
import bisect
import collections
import re

UNSENT, SENT, DOUBTFUL = 0, 1, 2
# A line of the access log waits for 10 ms in a worker (sluice-log, `COLLECT`) and then for the thread that writes, which may have to wait for a processor.
LOG_DELAY = 2.0
DEATH = "server killed"
# Faults under which no line can be written. Lines wait in memory, and the next attempt is a second later (sluice-log, `RETRY`).
UNWRITABLE = ("log disk full", "file size")
RETRY = 1.0


class Windows:
    """When faults were in force: name → intervals in order, the last one perhaps open."""

    def __init__(self):
        self.intervals = collections.defaultdict(list)

    def open(self, name, now):
        self.intervals[name].append([now, None])

    def close(self, name, now):
        self.intervals[name][-1][1] = now

    def overlaps(self, names, begun, ended):
        """Whether one of these was in force between these times."""
        for name in names:
            found = self.intervals.get(name)
            if not found:
                continue
            # The last one that began before; the others ended before that.
            at = bisect.bisect_right([begin for begin, _ in found], ended)
            if at and (found[at - 1][1] is None or found[at - 1][1] >= begun):
                return True
        return False

    def end_of(self, names, begun, ended):
        """When the last of these faults ended that was in force between two times: infinity if it has not ended, None if there was none."""
        found = [(begin, end or float("inf")) for name in names for begin, end in self.intervals.get(name, ())]
        return max((end for begin, end in found if begin <= ended and end >= begun), default=None)

    def near(self, begun, ended):
        """What was in force between these times, as text."""
        found = ((begin, end or float("inf"), name) for name, intervals in self.intervals.items() for begin, end in intervals)
        return ", ".join(f"{name} {begin:.3f} to {end:.3f}" for begin, end, name in sorted(found) if begin <= ended and end >= begun)


class Books:
    """Exchanges by number. A marker is `NAME-NUMBER-` and a hexadecimal number."""

    def __init__(self, name):
        self.name = name
        self.state, self.kind = bytearray(), array.array("H")
        self.since, self.begun, self.ended = array.array("d"), array.array("d"), array.array("d")
        self.names = []
        self.done = 0
        self.outcome = collections.defaultdict(collections.Counter)
        self.pattern = re.compile(rf"{name}-(\d+)-[0-9a-f]+")
        self.bytes_pattern = re.compile(self.pattern.pattern.encode())

    def begin(self, number, kind, now, since=None):
        """An exchange whose request has been sent, perhaps not completely. `since`, if it is not the first on its connection, is the begin of the one
        before: a fault since then may have ended the connection, and the client, which was still reading, could not know."""
        missing = number + 1 - len(self.state)
        if missing > 0:
            self.state.extend(bytes(missing))
            for of in (self.since, self.begun, self.ended, self.kind):
                of.frombytes(bytes(missing * of.itemsize))
        if kind not in self.names:
            self.names.append(kind)
        self.state[number], self.begun[number], self.ended[number] = SENT, now, 0.0
        self.since[number] = now if since is None else since
        self.kind[number] = self.names.index(kind)

    def end(self, number, kind, outcome, now, is_doubtful=False):
        """It is over. Doubtful: its head may not have been read by the server."""
        self.ended[number] = now
        if is_doubtful:
            self.state[number] = DOUBTFUL
        self.done += 1
        self.outcome[kind][outcome] += 1

    def others(self, marker, got):
        """Markers of other requests in these bytes."""
        own = marker.encode()
        return [found.group() for found in self.bytes_pattern.finditer(got) if not own.startswith(found.group())]

    def check(self, text_lines, windows):
        """The access log against the books: lost, more than once, foreign. Returns findings and a summary."""
        seen = bytearray(len(self.state))
        findings, again = [], []
        for line in text_lines:
            for found in set(self.pattern.findall(line)):
                number = int(found)
                if number >= len(seen) or self.state[number] == UNSENT:
                    findings.append(f"logged, but never sent: {line.strip()[:200]}")
                else:
                    if seen[number]:
                        again.append(line)
                    seen[number] = min(seen[number] + 1, 255)
        twice = [number for number, count in enumerate(seen) if count > 1]
        missing = [number for number, state in enumerate(self.state) if state == SENT and seen[number] == 0]
        unwritten = [number for number in missing if self._may_be_lost(number, windows)]
        lost = sorted(set(missing) - set(unwritten))
        findings += [f"logged {seen[number]} times: {self.about(number)}" for number in twice[:10]]
        findings += [f"    {line.strip()[:300]}" for line in again[:10]]
        for number in lost[:10]:
            meanwhile = windows.near(self.begun[number] - 5, (self.ended[number] or self.begun[number]) + 5)
            findings.append(f"not logged: {self.about(number)}; faults about that time: {meanwhile or 'none'}")
        summary = {
            "exchanges": sum(state != UNSENT for state in self.state),
            "logged": sum(count > 0 for count in seen),
            "left before the server must have read them": sum(
                state == DOUBTFUL and seen[number] == 0 for number, state in enumerate(self.state)
            ),
            "unwritten when the server was killed": len(unwritten),
            "logged more than once": len(twice),
            "lost": len(lost),
        }
        return findings, summary

    def _may_be_lost(self, number, windows):
        """In progress when the server was killed, or ended so shortly before that its line was not written: also because it could not be."""
        written = (self.ended[number] or float("inf")) + LOG_DELAY
        writable = windows.end_of(UNWRITABLE, self.begun[number], written)
        if writable is not None:
            written = max(written, writable + RETRY + LOG_DELAY)
        return windows.overlaps([DEATH], self.begun[number], written)

    def about(self, number):
        kind = self.names[self.kind[number]]
        return f"{self.name}-{number} ({kind}), from {self.begun[number]:.3f} to {self.ended[number]:.3f}"
