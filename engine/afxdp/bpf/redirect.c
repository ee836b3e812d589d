// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The XDP program of a port that backend afxdp meters:
 *
 *   signature of an armed stream, or all? -+-> stamp -> socket of the frame's queue
 *   ARP, neighbour discovery, the rest ----+-> counted -> stack, or (sink) drop
 *
 * A queue without a socket hands its frames to the stack. The stamp stands in the
 * 8 octets before the frame: ns of CLOCK_MONOTONIC; where the driver has no room
 * for metadata there is none. It finds signatures where frame.Parse does, and
 * leaves it to the latter whether the lengths fit.
 */
#include "common.h"

#define ICMP 1
#define TCP 6
#define UDP 17

/* Frames that did not go to a socket. */
struct rest {
	u64 frames;
	u64 octets; /* without FCS */
	u64 first; /* ns */
	u64 last;
};

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1); /* queues; set before loading */
	__type(key, u32);
	__type(value, u32);
} sockets SEC(".maps");

/* Of this epoch and the one before: what is cleared is not being written to. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct rest);
} passed SEC(".maps");

u8 armed[1 << 16]; /* streams */
u32 epoch; /* changes with each Arm */
u32 all; /* every frame but those of neighbours goes to the sockets */
u32 sink; /* DROPS: no frame goes to the stack; SCREENS: those of neighbours alone */

static __always_inline int pass(u32 len)
{
	u32 key = epoch & 1;
	struct rest *p = bpf_map_lookup_elem(&passed, &key);
	u64 now = bpf_ktime_get_ns();

	if (!p)
		return XDP_PASS;
	if (!p->frames)
		p->first = now;
	p->last = now;
	p->frames++;
	p->octets += len;
	return sink ? XDP_DROP : XDP_PASS;
}

/* Whether the frame has the signature of an armed stream. */
static __always_inline bool ours(void *data, void *data_end)
{
	u32 at = ETH_LEN, part = 8;
	u16 type = LOAD16(data + 12);
	u8 proto;
	void *ip, *l4, *sig;

#pragma unroll
	for (int i = 0; i < 2; i++) {
		if (type != bpf_htons(0x8100) && type != bpf_htons(0x88a8))
			break;
		if (data + at + 4 > data_end)
			return false;
		type = LOAD16(data + at + 2);
		at += 4;
	}
	ip = data + at;
	if (type == bpf_htons(0x0800)) {
		u32 header;

		if (ip + IP4_LEN > data_end)
			return false;
		header = (*(u8 *)ip & 15) * 4;
		if (*(u8 *)ip >> 4 != 4 || header < IP4_LEN || LOAD16(ip + 6) & bpf_htons(0x1fff))
			return false;
		proto = *(u8 *)(ip + 9);
		at += header;
	} else if (type == bpf_htons(0x86dd)) {
		if (ip + IP6_LEN > data_end || *(u8 *)ip >> 4 != 6)
			return false;
		proto = *(u8 *)(ip + 6);
		at += IP6_LEN;
	} else {
		return false;
	}
	l4 = data + at;
	if (l4 + 8 + SIG_LEN > data_end)
		return false;
	if (proto == TCP) {
		part = (*(u8 *)(l4 + 12) >> 4) * 4;
		if (part < 20)
			return false;
	} else if (proto == ICMP) {
		if (*(u8 *)l4 != 8 && *(u8 *)l4 != 0)
			return false;
	} else if (proto == ICMP6) {
		if (*(u8 *)l4 != 128 && *(u8 *)l4 != 129)
			return false;
	} else if (proto != UDP) {
		return false;
	}
	sig = l4 + part;
	return sig + SIG_LEN <= data_end && LOAD32(sig) == bpf_htonl(MAGIC) &&
	       armed[stream_number(sig)];
}

SEC("xdp")
int redirect(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	u32 len = data_end - data;
	void *stamp;

	if (data + ETH_LEN > data_end)
		return pass(len);
	if (sink == SCREENS && neighbours(LOAD16(data + 12), data + ETH_LEN, data_end))
		return XDP_PASS;
	if (all ? neighbours(LOAD16(data + 12), data + ETH_LEN, data_end) : !ours(data, data_end))
		return pass(len);
	if (!bpf_xdp_adjust_meta(ctx, -(int)sizeof(u64))) {
		stamp = (void *)(long)ctx->data_meta;
		if (stamp + sizeof(u64) <= (void *)(long)ctx->data)
			store64_at2(stamp, bpf_ktime_get_ns());
	}
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

char _license[] SEC("license") = "Dual BSD/GPL";
