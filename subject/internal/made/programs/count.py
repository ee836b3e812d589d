# SPDX-License-Identifier: Apache-2.0
"""Counts frames of a port with one of several libraries, as their users do.

One JSON object a line on standard output: {"ready": true} once it listens, ten times
a second {"count": frames so far}, and what the library tells of drops ("kernel",
"port": frames so far). It ends on SIGINT, with a last line.

    count.py LIBRARY PORT FILTER BUFFER    BUFFER: octets, 0: as it is
"""

import json
import os
import select
import signal
import socket
import struct
import sys
import time

PAUSE = 0.1  # s between two lines
BATCH = 256  # frames between two looks at the clock
SO_RCVBUFFORCE = 33
SOL_PACKET, PACKET_STATISTICS, PACKET_IGNORE_OUTGOING = 263, 6, 23
ETH_P_ALL = 3

going = True


def stop(*_):
    global going
    going = False


class Teller:
    """Prints the count, at most every PAUSE."""

    def __init__(self):
        self.count = 0
        self.drops = lambda: {}
        self.due = 0.0
        self.saying = False

    def say(self, **more):
        self.saying = True
        more.update(self.drops())
        print(json.dumps(dict(count=self.count, **more)), flush=True)
        self.due = time.monotonic() + PAUSE
        self.saying = False

    def tick(self):
        if time.monotonic() >= self.due:
            self.say()


def buffer_of(sock, size):
    if size:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, size // 2)  # the kernel doubles it


def statistics(sock):
    """Adds up PACKET_STATISTICS, which the kernel clears when they are read."""
    total = [0]

    def drops():
        total[0] += struct.unpack("II", sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
        return {"kernel": total[0]}

    return drops


def plain(t, port, text, size):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    buffer_of(sock, size)
    try:
        sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    except OSError:
        pass  # before Linux 4.20
    if text:
        # Classic BPF of "udp": over IPv4, and over IPv6 without extension headers.
        code = [(0x28, 0, 0, 12), (0x15, 0, 2, 0x86DD), (0x30, 0, 0, 20), (0x15, 3, 4, 17),
                (0x15, 0, 3, 0x0800), (0x30, 0, 0, 23), (0x15, 0, 1, 17), (0x06, 0, 0, 0x40000), (0x06, 0, 0, 0)]
        import ctypes

        class Program(ctypes.Structure):
            _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]

        words = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
        program = Program(len(code), ctypes.addressof(words))
        sock.setsockopt(socket.SOL_SOCKET, 26, bytes(program))  # SO_ATTACH_FILTER
    sock.bind((port, ETH_P_ALL))
    t.drops = statistics(sock)

    class Over(Exception):
        pass

    def tick(*_):
        if t.saying:  # the line before is not out yet
            return
        t.say()
        if not going:
            raise Over

    t.say(ready=True)
    signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, PAUSE, PAUSE)
    try:
        while True:
            sock.recv(65535)
            t.count += 1
    except Over:
        signal.setitimer(signal.ITIMER_REAL, 0)


def scapy(t, port, text, size):
    from scapy.all import AsyncSniffer, conf

    if size:
        conf.bufsize = size
    sock = conf.L2listen(iface=port, filter=text or None)
    buffer_of(sock.ins, size)
    t.drops = statistics(sock.ins)

    def one(_):
        t.count += 1

    sniffer = AsyncSniffer(opened_socket=sock, store=False, prn=one)
    sniffer.start()
    t.say(ready=True)
    while going and sniffer.running:
        time.sleep(PAUSE)
        t.tick()
    if not going and sniffer.running:
        sniffer.stop(join=False)


def loop(t, descriptor, dispatch):
    """Reads frames as they come, and looks at the clock in between."""
    t.say(ready=True)
    while going:
        try:
            ready = select.select([descriptor], [], [], PAUSE)[0]
        except InterruptedError:
            continue
        if ready:
            dispatch()
        t.tick()


def decoder(t):
    """Counts UDP datagrams that dpkt decodes."""
    import dpkt

    ethernet, udp = dpkt.ethernet.Ethernet, dpkt.udp.UDP

    def one(frame):
        if isinstance(getattr(ethernet(frame).data, "data", None), udp):
            t.count += 1

    return one


def pypcap(t, port, text, _):
    import pcap

    p = pcap.pcap(name=port, promisc=True, timeout_ms=10)
    p.setfilter(text)
    p.setnonblock()
    one = decoder(t)
    t.drops = lambda: dict(zip(("kernel", "port"), p.stats()[1:3]))
    loop(t, p.fileno(), lambda: p.dispatch(BATCH, lambda _ts, frame, *_: one(frame)))


def pcapy(t, port, text, size):
    import pcapy

    p = pcapy.create(port)
    p.set_snaplen(65535)
    p.set_promisc(1)
    p.set_timeout(10)
    if size:
        p.set_buffer_size(size)
    p.activate()
    p.setfilter(text)
    p.setnonblock(1)
    one = decoder(t)
    t.drops = lambda: dict(zip(("kernel", "port"), p.stats()[1:3]))
    loop(t, p.getfd(), lambda: p.dispatch(BATCH, lambda _header, frame: one(frame)))


def pyshark(t, port, text, _):
    import threading

    import pyshark as library

    class Live(library.LiveCapture):
        async def _handle_process_stderr_forever(self, stderr):
            while line := await stderr.readline():  # dumpcap's drops are for boxdyno
                sys.stderr.write(line.decode(errors="replace"))
                sys.stderr.flush()

    def tell():
        # It keeps the writing end of tshark's pipe open, so that tshark never ends:
        # this ends once dumpcap has and nothing more is counted.
        still, told = 0, False
        while still < 5:
            time.sleep(PAUSE)
            before = t.count
            t.say()
            if going:
                continue
            captors = children("dumpcap")
            for pid in captors if not told else []:
                os.kill(pid, signal.SIGINT)
            told = True
            still = still + 1 if t.count == before and not captors else 0
        t.say(end=True)
        os._exit(0)

    capture = Live(interface=port, bpf_filter=text or None)
    t.say(ready=True)
    threading.Thread(target=tell, daemon=True).start()
    for packet in capture.sniff_continuously():
        if "udp" in packet:
            t.count += 1


def children(name):
    """Processes that this one has started and that have not ended."""
    pids = []
    for task in os.listdir("/proc/self/task"):
        with open("/proc/self/task/%s/children" % task) as f:
            pids += [int(p) for p in f.read().split()]

    def alive(pid):
        try:
            with open("/proc/%d/stat" % pid) as f:
                _, called, rest = f.read().replace(")", "(").split("(", 2)
        except OSError:
            return False
        return called == name and rest.split()[0] != "Z"

    return [p for p in pids if alive(p)]


def main():
    signal.signal(signal.SIGINT, stop)
    name, port, text, size = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    t = Teller()
    {"python-socket": plain, "scapy": scapy, "pypcap": pypcap, "pcap-ct": pypcap, "pcapy-ng": pcapy, "pyshark": pyshark}[name](t, port, text, size)
    t.say(end=True)
    sys.stdout.flush()
    os._exit(0)  # no library's threads hold it up


main()
