// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The meter of the xdp backends, on the receiving port:
 *
 *   plain IPv4/IPv6 UDP with our magic? ---------+-> armed? -> whole? -> sequence -> (timing) histograms -> drop
 *   else: VLAN tags, IP options, TCP, ICMP? -----+      |
 *   neither ------------------------------------------- foreign -> stack, or (sink) drop
 *
 * It reads frames as frame.Parse does and counts as engine/internal/tally/track.go, their slow
 * twins. Everything is per CPU: a receive queue is one CPU's, and order is judged
 * in a queue.
 */
#include "common.h"
#include "bucket.h"

#define MAX_STREAMS 16 /* MaxStreams in engine/engine.go */
#define WINDOW_WORDS 128 /* 8,192 sequence numbers */
#define BURST_BUCKETS 464
#define BURST_GAP 2000 /* ns; BurstGap in engine/engine.go */
#define BATCH_MASK 63
#define MAX_RUNS 16 /* as engine/internal/tally/runs.go, which explains runs */
#define OTHER_CLOCK 1000000000ll
#define FAR_AHEAD (1ll << 30)
#define LOW_NUMBER (1 << 20)

/* As markEvery and KeptMarks in engine/internal/tally/progress.go. */
#define MARK_EVERY 3000000 /* ns */
#define MARKS 2048 /* of a page: a per-CPU value has at most 32 KiB */
#define MARK_PAGES 8

#define ICMP 1
#define TCP 6
#define UDP 17

/* Set before loading; the verifier removes what does not apply. */
const volatile bool timing;
const volatile bool scripted; /* tests: the clock reads script_now */

/* What the stream had counted when a run of its sender ended. */
struct mark {
	u64 frames;
	u64 octets;
	u64 reordered;
	u64 duplicate;
	u64 first; /* ns, arrivals */
	u64 last;
	u64 begin; /* ns by the sender's clock */
	u64 top;
	u64 lowest;
	u64 next;
};

struct stream {
	u64 frames;
	u64 octets;
	u64 reordered;
	u64 duplicate;
	u64 broken;
	u64 first; /* ns */
	u64 last;
	u64 last_frames; /* frames when last was read */
	u64 gap; /* with timing: ns, the last frame that came while numbers before it were missing */
	u64 next; /* sequence expected, extended past 32 bit; 0: none yet */
	u64 arrived; /* ns, the run's first frame */
	u64 begin; /* when that was sent, in network byte order */
	u64 top; /* that with the highest sequence */
	u64 lowest;
	u64 late; /* frames that left behind their schedule */
	u64 runs; /* that ended */
	u64 jiffy; /* of the last frame */
	u64 marked; /* ns, the last mark */
	u64 seen[WINDOW_WORDS];
	struct mark past[MAX_RUNS]; /* the last one is never used: an index is masked */
};

/* Apart from struct stream, because a per-CPU value has at most 32 KiB. */
struct times {
	u64 latency[BUCKETS];
	u64 gaps[BUCKETS];
	u64 ipdv[BUCKETS];
	u64 bursts[BURST_BUCKETS];
	u64 run; /* frames of the burst under way */
	u64 delay; /* of the frame before */
	u32 sequence;
	u32 stamped;
};

/* All frames that are not counted as a stream's. */
struct rest {
	u64 frames; /* broken ones, too */
	u64 foreign;
	u64 foreign_octets;
	u64 first; /* ns */
	u64 last;
	u64 marks; /* that were made */
};

/* Where the streams of a CPU stood; the oldest marks are written over. */
struct progress {
	struct {
		u64 at; /* ns */
		u64 frames; /* that came before; the stream's key in the uppermost octet */
	} marks[MARKS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MARK_PAGES);
	__type(key, u32);
	__type(value, struct progress);
} stream_progress SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_STREAMS);
	__type(key, u32);
	__type(value, struct stream);
} streams SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_STREAMS); /* 1 without timing */
	__type(key, u32);
	__type(value, struct times);
} stream_times SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct rest);
} others SEC(".maps");

u8 slots[1 << 16]; /* of a stream number: its key in streams + 1; 0: not armed */
u32 sink; /* DROPS or SCREENS foreign frames */
u64 script_now;

static __always_inline u64 now_ns(void)
{
	return scripted ? script_now : bpf_ktime_get_ns();
}

/* Reading it costs a frame next to nothing: the kernel's tick writes it. */
static __always_inline u64 jiffy_now(void)
{
	return scripted ? script_now : bpf_jiffies64();
}

/* Notes how many frames of stream i came before this one. */
static __noinline int note(struct stream *s, u32 i)
{
	u64 now = now_ns();
	u32 zero = 0, page;
	struct progress *p;
	struct rest *r;

	if (!s)
		return 0;
	if (s->frames && (s64)(now - s->marked) < MARK_EVERY)
		return 0;
	s->marked = now;
	r = bpf_map_lookup_elem(&others, &zero);
	if (!r)
		return 0;
	page = r->marks / MARKS % MARK_PAGES;
	p = bpf_map_lookup_elem(&stream_progress, &page);
	if (!p)
		return 0;
	p->marks[r->marks % MARKS].at = now;
	p->marks[r->marks % MARKS].frames = s->frames | (u64)i << 56;
	r->marks++;
	return 0;
}

/* Clears the bits of [from, to). */
static __always_inline void forget(struct stream *s, u64 from, u64 to)
{
	u64 head = ~0ull << (from & 63), tail = ~(~0ull << (to & 63));
	u64 first = from >> 6, last = to >> 6;

	if (to - from >= WINDOW_WORDS * 64) {
		first = last - WINDOW_WORDS;
		head = ~0ull;
	}
	if (first == last) {
		s->seen[first & (WINDOW_WORDS - 1)] &= ~(head & tail);
		return;
	}
	s->seen[first & (WINDOW_WORDS - 1)] &= ~head;
	for (u32 i = 1; i < WINDOW_WORDS; i++) {
		if (first + i >= last)
			break;
		s->seen[(first + i) & (WINDOW_WORDS - 1)] = 0;
	}
	s->seen[last & (WINDOW_WORDS - 1)] &= ~tail;
}

/* As runBook.anew in engine/internal/tally/runs.go; ahead is how far the frame is. */
static __always_inline bool anew(struct stream *s, s64 ahead, u32 seq, u64 sent)
{
	s64 at = bpf_be64_to_cpu(sent);

	if (s->runs >= MAX_RUNS - 1)
		return false;
	if (ahead >= 0)
		return ahead > FAR_AHEAD && seq < LOW_NUMBER;
	if (!sent || !s->top)
		return false;
	return (s64)(at - bpf_be64_to_cpu(s->top)) > 0 || (s64)(bpf_be64_to_cpu(s->begin) - at) > OTHER_CLOCK;
}

/* Ends the run. */
static __noinline int end_run(struct stream *s)
{
	struct mark *m;

	if (!s)
		return 0;
	m = &s->past[s->runs & (MAX_RUNS - 1)];
	m->frames = s->frames;
	m->octets = s->octets;
	m->reordered = s->reordered;
	m->duplicate = s->duplicate;
	m->first = s->arrived;
	m->last = s->last;
	m->begin = bpf_be64_to_cpu(s->begin);
	m->top = bpf_be64_to_cpu(s->top);
	m->lowest = s->lowest;
	m->next = s->next;
	s->runs++;
	s->next = 0;
	for (u32 i = 0; i < WINDOW_WORDS; i++)
		s->seen[i] = 0;
	return 0;
}

/* As tracker.order in engine/internal/tally/track.go, which explains it; sent is in network byte order. */
static __always_inline void order(struct stream *s, u32 seq, u64 sent)
{
	u64 full, bit;
	s64 ahead;
	u32 word;

	ahead = (s32)(seq - (u32)s->next);
	if (ahead && s->next && anew(s, ahead, seq, sent))
		end_run(s);
	if (!s->next) {
		ahead = 0;
		s->next = (1ull << 32) + seq;
		s->arrived = now_ns();
		s->begin = sent;
		s->lowest = s->next;
	}
	full = s->next + ahead;
	bit = 1ull << (full & 63);
	word = (full >> 6) & (WINDOW_WORDS - 1);
	if (full == s->next) {
		s->next++;
		s->top = sent;
	} else if ((s64)(full - s->next) > 0) {
		if (timing)
			s->gap = now_ns();
		forget(s, s->next, full);
		s->next = full + 1;
		s->top = sent;
	} else if (s->next - full > WINDOW_WORDS * 64) {
		s->reordered++;
		return;
	} else if (s->seen[word] & bit) {
		s->duplicate++;
	} else {
		s->reordered++;
	}
	s->seen[word] |= bit;
}

/* Counts a frame that is no stream's; broken is one that is, and damaged. */
static __noinline int other(u32 len, bool broken)
{
	u32 zero = 0;
	struct rest *r = bpf_map_lookup_elem(&others, &zero);

	if (!r)
		return XDP_PASS;
	if (timing || !(r->frames & BATCH_MASK)) {
		u64 now = now_ns();

		if (!r->first)
			r->first = now;
		r->last = now;
	}
	r->frames++;
	if (broken)
		return XDP_DROP;
	r->foreign++;
	r->foreign_octets += len + 4;
	return sink ? XDP_DROP : XDP_PASS;
}

/* As timing.frame and timing.gap in engine/internal/tally/track.go. */
static __always_inline void histograms(struct stream *s, u32 i, u64 now, u64 sent, u32 seq)
{
	struct times *t = bpf_map_lookup_elem(&stream_times, &i);
	u32 b;

	if (!t)
		return;
	if (s->frames) {
		u64 gap = now - s->last;

		b = bucket((s64)gap > 0 ? gap : 0);
		if (b < BUCKETS)
			t->gaps[b]++;
		if ((s64)gap >= BURST_GAP) {
			b = t->run < 1ull << 32 ? bucket(t->run) : BURST_BUCKETS - 1;
			if (b < BURST_BUCKETS)
				t->bursts[b]++;
			t->run = 0;
		}
	}
	t->run++;
	if (sent) {
		u64 delay = now - sent, d = delay - t->delay;

		b = bucket((s64)delay > 0 ? delay : 0);
		if (b < BUCKETS)
			t->latency[b]++;
		if (t->stamped && seq == t->sequence + 1) {
			b = bucket((s64)d > 0 ? d : -d);
			if (b < BUCKETS)
				t->ipdv[b]++;
		}
		t->delay = delay;
		t->sequence = seq;
	}
	t->stamped = !!sent;
}

/*
 * sig is a signature in the packet; fits says whether every length does. A signed
 * frame has 60 octets or more, so nothing pads it.
 */
static __always_inline int count(void *sig, u32 len, bool fits)
{
	u32 seq = bpf_ntohl(load32_at2(sig + 6));
	u32 i = slots[stream_number(sig)];
	struct stream *s;
	u64 sent, jiffy;

	if (!i)
		return other(len, false);
	i--;
	s = bpf_map_lookup_elem(&streams, &i);
	if (!s)
		return XDP_DROP;
	if (!fits) {
		s->broken++;
		return other(len, true);
	}
	sent = load64_at2(sig + 10);
	if (sent & bpf_cpu_to_be64(LATE)) {
		sent &= ~bpf_cpu_to_be64(LATE);
		s->late++;
	}
	order(s, seq, sent);
	jiffy = jiffy_now();
	if (!s->frames || jiffy != s->jiffy) {
		s->jiffy = jiffy;
		note(s, i);
	}
	if (timing || !(s->frames & BATCH_MASK)) {
		u64 now = now_ns();

		if (timing)
			histograms(s, i, now, bpf_be64_to_cpu(sent), seq);
		if (!s->frames)
			s->first = now;
		s->last = now;
		s->last_frames = s->frames;
	}
	s->frames++;
	s->octets += len + 4;
	return XDP_DROP;
}

/* As frame.Parse: frames with anything between Ethernet, IP and UDP, or instead. */
static __noinline int search(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	u32 len = data_end - data, at = ETH_LEN, total, part;
	u16 type;
	u8 proto;
	void *ip, *l4, *sig;

	if (data + ETH_LEN > data_end)
		return other(len, false);
	type = LOAD16(data + 12);
#pragma unroll
	for (int i = 0; i < 2; i++) {
		if (type != bpf_htons(0x8100) && type != bpf_htons(0x88a8))
			break;
		if (data + at + 4 > data_end)
			return other(len, false);
		type = LOAD16(data + at + 2);
		at += 4;
	}
	if (sink == SCREENS && neighbours(type, data + at, data_end))
		return XDP_PASS;
	ip = data + at;
	if (type == bpf_htons(0x0800)) {
		u32 header;

		if (ip + IP4_LEN > data_end)
			return other(len, false);
		header = (*(u8 *)ip & 15) * 4;
		/* The fragment offset must be 0: later fragments have no header. */
		if (*(u8 *)ip >> 4 != 4 || header < IP4_LEN || LOAD16(ip + 6) & bpf_htons(0x1fff))
			return other(len, false);
		proto = *(u8 *)(ip + 9);
		total = at + bpf_ntohs(LOAD16(ip + 2));
		at += header;
	} else if (type == bpf_htons(0x86dd)) {
		if (ip + IP6_LEN > data_end || *(u8 *)ip >> 4 != 6)
			return other(len, false);
		proto = *(u8 *)(ip + 6);
		at += IP6_LEN;
		total = at + bpf_ntohs(LOAD16(ip + 4));
	} else {
		return other(len, false);
	}

	/* The least of any header with a signature: 8 octets before it. */
	l4 = data + at;
	if (l4 + 8 + SIG_LEN > data_end)
		return other(len, false);
	part = 8;
	if (proto == TCP) {
		part = (*(u8 *)(l4 + 12) >> 4) * 4;
		if (part < 20)
			return other(len, false);
	} else if (proto == ICMP) {
		if (*(u8 *)l4 != 8 && *(u8 *)l4 != 0)
			return other(len, false);
	} else if (proto == ICMP6) {
		if (*(u8 *)l4 != 128 && *(u8 *)l4 != 129)
			return other(len, false);
	} else if (proto != UDP) {
		return other(len, false);
	}
	sig = l4 + part;
	if (sig + SIG_LEN > data_end || LOAD32(sig) != bpf_htonl(MAGIC))
		return other(len, false);
	return count(sig, len, len == total &&
		     (proto != UDP || at + bpf_ntohs(LOAD16(l4 + 4)) == total));
}

SEC("xdp")
int meter(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	u32 len = data_end - data, total;
	void *udp;

	if (data + ETH_LEN + IP4_LEN + UDP_LEN + SIG_LEN > data_end)
		return search(ctx); /* a virtual link does not fill ARP up to 60 octets */
	/* IPv4 without options; no later fragment; UDP. */
	if (LOAD16(data + 12) == bpf_htons(0x0800) && *(u8 *)(data + ETH_LEN) == 0x45) {
		udp = data + ETH_LEN + IP4_LEN;
		if (LOAD16(data + ETH_LEN + 6) & bpf_htons(0x1fff) || *(u8 *)(data + ETH_LEN + 9) != UDP ||
		    LOAD32(udp + UDP_LEN) != bpf_htonl(MAGIC))
			return search(ctx);
		total = ETH_LEN + bpf_ntohs(LOAD16(data + ETH_LEN + 2));
		return count(udp + UDP_LEN, len, len == total &&
			     ETH_LEN + IP4_LEN + bpf_ntohs(LOAD16(udp + 4)) == total);
	}
	if (LOAD16(data + 12) == bpf_htons(0x86dd) && *(u8 *)(data + ETH_LEN) >> 4 == 6) {
		udp = data + ETH_LEN + IP6_LEN;
		if (udp + UDP_LEN + SIG_LEN > data_end || *(u8 *)(data + ETH_LEN + 6) != UDP ||
		    LOAD32(udp + UDP_LEN) != bpf_htonl(MAGIC))
			return search(ctx);
		total = ETH_LEN + IP6_LEN + bpf_ntohs(LOAD16(data + ETH_LEN + 4));
		return count(udp + UDP_LEN, len, len == total &&
			     ETH_LEN + IP6_LEN + bpf_ntohs(LOAD16(udp + 4)) == total);
	}
	return search(ctx);
}

char _license[] SEC("license") = "Dual BSD/GPL";
