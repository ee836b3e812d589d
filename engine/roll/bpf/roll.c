// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The meter of a replay, on the receiving port:
 *
 *   frame -> mark (head, body) -> on the roll? --- counted there -> drop
 *                                 a neighbour's? - stack
 *                                 strange -------- counted by its mark, as long as there is room -> drop
 *
 * It marks frames as frame.MarkOf does, its slow twin. The roll is a table of open
 * addressing that user space fills and reads: a frame costs one line of cache there.
 */
#include "common.h"

#define ICMP 1
#define TCP 6
#define UDP 17

#define SAME_LINK 1 /* frame.Sameness */
#define SAME_ENDS 2
#define HEAD_SEED 0x9e3779b97f4a7c15ull /* frame/mark.go */
#define BODY_SEED 0xc2b2ae3d27d4eb4full
#define STIR_FACTOR 0xff51afd7ed558ccdull

#define PROBES 32 /* rollProbes in engine/roll/roll.go */
#define WORDS 1152 /* 9,216 octets */

const volatile u32 same;
const volatile u32 slot_mask;

struct mark {
	u64 head;
	u64 body;
};

struct slot {
	u64 key; /* 0: empty */
	u64 seen;
};

struct sums {
	u64 known;
	u64 octets; /* theirs, with FCS */
	u64 first; /* ns */
	u64 last;
	u64 strange;
	u64 strange_octets;
	u64 more; /* strange ones without room */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading */
	__type(key, u32);
	__type(value, struct slot);
} table SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16); /* frame.MostStrange */
	__type(key, struct mark);
	__type(value, u64);
} strangers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sums);
} totals SEC(".maps");

static __always_inline u64 stir(u64 h, u64 w)
{
	h = ((h << 23 | h >> 41) ^ w) * STIR_FACTOR;
	return h ^ h >> 29;
}

/* p lies at a multiple of 4. */
static __always_inline u64 load64_at4(const void *p)
{
	return LOAD32(p) | (u64)LOAD32(p + 4) << 32;
}

/* As stirAll in frame/mark.go, of n octets behind 14 + 4 * word. */
__noinline u64 stir_all(struct xdp_md *ctx, u64 h, u32 word, u32 n)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *p = (void *)(long)ctx->data + ETH_LEN + (word & 0xfff) * 4;
	u32 left = n, shift = 0;
	u64 last = 0;

	for (u32 i = 0; i < WORDS; i++) {
		if (left < 8)
			break;
		if (p + 8 > data_end) /* never: n is what there is */
			return h;
		h = stir(h, load64_at4(p));
		p += 8;
		left -= 8;
	}
	if (left & 4 && p + 4 <= data_end) {
		last = LOAD32(p);
		p += 4;
		shift = 32;
	}
	if (left & 2 && p + 2 <= data_end) {
		last |= (u64)LOAD16(p) << shift;
		p += 2;
		shift += 16;
	}
	if (left & 1 && p + 1 <= data_end)
		last |= (u64)*(u8 *)p << shift;
	return stir(stir(h, last), n);
}

/* The same of the frame's first octets; there are so many as at says. */
static __always_inline u64 stir_link(u64 h, void *data, void *data_end, u32 at)
{
	u64 last;

	if (data + ETH_LEN > data_end)
		return h;
	h = stir(h, load64_at2(data));
	if (at == ETH_LEN) {
		last = load32_at2(data + 8) | (u64)LOAD16(data + 12) << 32;
	} else {
		if (data + ETH_LEN + 4 > data_end)
			return h;
		h = stir(h, load64_at2(data + 8));
		last = LOAD16(data + 16);
		if (at > ETH_LEN + 4) {
			if (data + ETH_LEN + 8 > data_end)
				return h;
			last = load32_at2(data + 16) | (u64)LOAD16(data + 20) << 32;
		}
	}
	return stir(stir(h, last), at);
}

/* As layer4 in frame/mark.go: n octets at at, 14 + 4 * something. */
static __always_inline u64 layer4(struct xdp_md *ctx, struct mark *m, u32 at, u32 n, u8 protocol, bool fragment)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *p = (void *)(long)ctx->data + ETH_LEN + ((at - ETH_LEN) / 4 & 0xfff) * 4;
	u64 h = m->head, body = BODY_SEED, sum = 0;
	bool ends = same & SAME_ENDS, summed = false;
	u32 rest = 0;

	if (!fragment && protocol == TCP && n >= 20 && p + 20 <= data_end) {
		if (ends)
			h = stir(h, LOAD32(p));
		body = stir(stir(body, load64_at4(p + 4)), LOAD32(p + 12) | (u64)LOAD16(p + 18) << 32);
		sum = LOAD16(p + 16);
		rest = 20;
		summed = true;
	} else if (!fragment && protocol == UDP && n >= 8 && p + 8 <= data_end) {
		if (ends)
			h = stir(h, LOAD32(p));
		body = stir(body, LOAD16(p + 4));
		sum = LOAD16(p + 6);
		rest = 8;
		summed = true;
	} else if (!fragment && (protocol == ICMP || protocol == ICMP6) && n >= 8 && p + 8 <= data_end) {
		u8 kind = *(u8 *)p;

		if (protocol == ICMP ? kind == 8 || kind == 0 : kind == 128 || kind == 129) {
			if (ends)
				h = stir(h, LOAD16(p + 4));
			body = stir(body, LOAD16(p) | (u64)LOAD16(p + 6) << 16);
		} else {
			body = stir(body, LOAD16(p));
			if (!ends) {
				m->head = h;
				m->body = body;
				return 0;
			}
			body = stir(body, LOAD32(p + 4));
		}
		sum = LOAD16(p + 2);
		rest = 8;
		summed = true;
	}
	if (summed && ends)
		body = stir(body, sum);
	m->head = h;
	m->body = stir_all(ctx, body, (at + rest - ETH_LEN) / 4, n - rest);
	return 0;
}

static __always_inline void mark_frame(struct xdp_md *ctx, struct mark *m, u16 *type, u32 *l3)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	u32 len = data_end - data, at = ETH_LEN, header, total, end;
	u64 h = HEAD_SEED;
	u16 kind = 0;
	void *ip;

	m->head = m->body = 0;
	if (data + ETH_LEN > data_end) /* no link has such frames */
		return;
	kind = LOAD16(data + 12);
#pragma unroll
	for (int i = 0; i < 2; i++) {
		if (kind != bpf_htons(0x8100) && kind != bpf_htons(0x88a8))
			break;
		if (data + at + 4 > data_end)
			break;
		kind = LOAD16(data + at + 2);
		at += 4;
	}
	*type = kind;
	*l3 = at;
	ip = data + at;
	if (kind == bpf_htons(0x0800) && ip + IP4_LEN <= data_end && *(u8 *)ip >> 4 == 4) {
		u8 protocol = *(u8 *)(ip + 9);
		bool fragment = LOAD16(ip + 6) & bpf_htons(0x1fff);

		header = (*(u8 *)ip & 15) * 4;
		total = bpf_ntohs(LOAD16(ip + 2));
		if (header < IP4_LEN)
			header = IP4_LEN;
		if (header > len - at)
			header = len - at;
		end = total > header ? total : header;
		if (end > len - at)
			end = len - at;
		h = stir(h, load64_at4(ip));
		h = stir(h, protocol);
		if (same & SAME_LINK)
			h = stir(stir_link(h, data, data_end, at), *(u8 *)(ip + 8) | (u64)LOAD16(ip + 10) << 8);
		if (same & SAME_ENDS)
			h = stir(h, load64_at4(ip + 12));
		if (header == IP4_LEN)
			h = stir(stir(h, 0), 0);
		else
			h = stir_all(ctx, h, (at + IP4_LEN - ETH_LEN) / 4, header - IP4_LEN);
		m->head = h;
		layer4(ctx, m, at + header, end - header, protocol, fragment);
		return;
	}
	if (kind == bpf_htons(0x86dd) && ip + IP6_LEN <= data_end && *(u8 *)ip >> 4 == 6) {
		u8 protocol = *(u8 *)(ip + 6);

		end = IP6_LEN + bpf_ntohs(LOAD16(ip + 4));
		if (end > len - at)
			end = len - at;
		h = stir(h, load64_at4(ip) & ~(0xffull << 56));
		if (same & SAME_LINK)
			h = stir(stir_link(h, data, data_end, at), *(u8 *)(ip + 7));
		if (same & SAME_ENDS) {
#pragma unroll
			for (int i = 8; i < IP6_LEN; i += 8)
				h = stir(h, load64_at4(ip + i));
		}
		m->head = h;
		layer4(ctx, m, at + IP6_LEN, end - IP6_LEN, protocol, false);
		return;
	}
	m->head = stir_link(h, data, data_end, ETH_LEN);
	m->body = stir_all(ctx, BODY_SEED, 0, len - ETH_LEN);
}

/* Counts a frame that is on the roll. */
static __always_inline bool called(const struct mark *m)
{
	u64 key = stir(m->head, m->body);

	if (!key)
		key = 1;
	for (u32 i = 0; i < PROBES; i++) {
		u32 at = ((u32)key + i) & slot_mask;
		struct slot *s = bpf_map_lookup_elem(&table, &at);

		if (!s || !s->key)
			return false;
		if (s->key == key) {
			__sync_fetch_and_add(&s->seen, 1);
			return true;
		}
	}
	return false;
}

SEC("xdp")
int roll(struct xdp_md *ctx)
{
	u32 zero = 0, len, l3 = ETH_LEN;
	struct mark m;
	struct sums *sum = bpf_map_lookup_elem(&totals, &zero);
	void *data, *data_end;
	u64 one = 1, now, *n;
	u16 type = 0;

	if (!sum)
		return XDP_PASS;
	mark_frame(ctx, &m, &type, &l3);
	data = (void *)(long)ctx->data;
	data_end = (void *)(long)ctx->data_end;
	len = data_end - data;
	if (called(&m)) {
		now = bpf_ktime_get_ns();
		if (!sum->known)
			sum->first = now;
		sum->last = now;
		sum->known++;
		sum->octets += len + 4;
		return XDP_DROP;
	}
	if (neighbours(type, data + (l3 & 31), data_end))
		return XDP_PASS;
	sum->strange++;
	sum->strange_octets += len + 4;
	n = bpf_map_lookup_elem(&strangers, &m);
	if (!n && bpf_map_update_elem(&strangers, &m, &one, BPF_NOEXIST)) {
		n = bpf_map_lookup_elem(&strangers, &m); /* another CPU was faster */
		if (!n)
			sum->more++;
	}
	if (n)
		__sync_fetch_and_add(n, 1);
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
