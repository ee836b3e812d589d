// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The meter of the xdp backend, on the receiving port:
 *
 *   IPv4/IPv6 UDP with our magic? -> whole? -> sequence -> (timing) histograms -> drop
 *
 * Everything is per CPU: a receive queue is one CPU's, and order is judged in a
 * queue. Frames that are not ours go on to the stack.
 */
#include "common.h"

#define MAX_STREAMS 4
#define WINDOW_WORDS 128 /* 8,192 sequence numbers */
#define BUCKETS 976      /* engine/histogram.go */
#define BATCH_MASK 63

const volatile bool timing;

struct stream {
	u64 frames;
	u64 octets;
	u64 reordered;
	u64 duplicate;
	u64 broken;
	u64 first; /* ns */
	u64 last;
	u64 last_frames; /* frames when last was read */
	u64 next; /* sequence expected, extended past 32 bit; 0: none yet */
	u64 seen[WINDOW_WORDS];
	u64 latency[BUCKETS];
	u64 gaps[BUCKETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_STREAMS);
	__type(key, u32);
	__type(value, struct stream);
} streams SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} foreign SEC(".maps");

/* Stream numbers that are armed, in the order of the map; MAX_STREAMS at most. */
u32 armed[MAX_STREAMS];
u32 armed_count;

/* log2 of v, which is at least 16. */
static __always_inline u32 log2_64(u64 v)
{
	u32 e = 0;

	if (v >> 32) { e += 32; v >>= 32; }
	if (v >> 16) { e += 16; v >>= 16; }
	if (v >> 8) { e += 8; v >>= 8; }
	if (v >> 4) { e += 4; v >>= 4; }
	if (v >> 2) { e += 2; v >>= 2; }
	if (v >> 1) e += 1;
	return e;
}

static __always_inline u32 bucket(u64 ns)
{
	u32 e;

	if (ns < 16)
		return ns;
	e = log2_64(ns);
	return (e - 3) * 16 + ((ns >> (e - 4)) & 15);
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

/* As tracker.order in engine/track.go, which explains it. */
static __always_inline void order(struct stream *s, u32 seq)
{
	u64 full, bit;
	u32 word;

	if (!s->next)
		s->next = (1ull << 32) + seq;
	full = s->next + (u64)(s64)(s32)(seq - (u32)s->next);
	bit = 1ull << (full & 63);
	word = (full >> 6) & (WINDOW_WORDS - 1);
	if (full == s->next) {
		s->next++;
	} else if ((s64)(full - s->next) > 0) {
		forget(s, s->next, full);
		s->next = full + 1;
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

static __always_inline int other(void)
{
	u32 zero = 0;
	u64 *n = bpf_map_lookup_elem(&foreign, &zero);

	if (n)
		(*n)++;
	return XDP_PASS;
}

static __always_inline int count(void *udp, u32 len, u32 total, u32 udp_at)
{
	u16 id = bpf_ntohs(LOAD16(udp + UDP_LEN + 4));
	struct stream *s;
	u64 now;
	u32 i = 0;

	if (armed_count == 0)
		return other();
	if (armed[0] != id) {
		for (i = 1; i < MAX_STREAMS; i++)
			if (i < armed_count && armed[i] == id)
				break;
		if (i >= MAX_STREAMS)
			return other();
	}
	s = bpf_map_lookup_elem(&streams, &i);
	if (!s)
		return XDP_DROP;
	if (len != (total < 60 ? 60 : total) || udp_at + bpf_ntohs(LOAD16(udp + 4)) != total) {
		s->broken++;
		return XDP_DROP;
	}
	if (timing || !(s->frames & BATCH_MASK)) {
		now = bpf_ktime_get_ns();
		if (timing) {
			u64 sent = bpf_be64_to_cpu(LOAD64(udp + UDP_LEN + 10));
			u32 b = bucket(now > sent ? now - sent : 0);

			if (sent && b < BUCKETS)
				s->latency[b]++;
			if (s->last) {
				b = bucket(now - s->last);
				if (b < BUCKETS)
					s->gaps[b]++;
			}
		}
		if (!s->first)
			s->first = now;
		s->last = now;
		s->last_frames = s->frames;
	}
	s->frames++;
	s->octets += len + 4;
	order(s, bpf_ntohl(LOAD32(udp + UDP_LEN + 6)));
	return XDP_DROP;
}

SEC("xdp")
int meter(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	void *udp;
	u32 len = data_end - data;

	if (data + ETH_LEN + IP4_LEN + UDP_LEN + SIG_LEN > data_end)
		return other();
	if (LOAD16(data + 12) == bpf_htons(0x0800)) {
		if (*(u8 *)(data + ETH_LEN) != 0x45 || *(u8 *)(data + ETH_LEN + 9) != 17)
			return other();
		udp = data + ETH_LEN + IP4_LEN;
		if (LOAD32(udp + UDP_LEN) != bpf_htonl(MAGIC))
			return other();
		return count(udp, len, ETH_LEN + bpf_ntohs(LOAD16(data + ETH_LEN + 2)), ETH_LEN + IP4_LEN);
	}
	if (LOAD16(data + 12) == bpf_htons(0x86dd)) {
		udp = data + ETH_LEN + IP6_LEN;
		if (udp + UDP_LEN + SIG_LEN > data_end || (*(u8 *)(data + ETH_LEN) & 0xf0) != 0x60 ||
		    *(u8 *)(data + ETH_LEN + 6) != 17 || LOAD32(udp + UDP_LEN) != bpf_htonl(MAGIC))
			return other();
		return count(udp, len, ETH_LEN + IP6_LEN + bpf_ntohs(LOAD16(data + ETH_LEN + 4)),
			     ETH_LEN + IP6_LEN);
	}
	return other();
}

char _license[] SEC("license") = "Dual BSD/GPL";
