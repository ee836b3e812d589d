// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The sender of the xdp backend: run over and over by BPF_PROG_RUN with live
 * frames, on one thread.
 *
 *   due? (paced) -> size -> headers of the size -> flow, network -> sequence, time -> redirect
 *
 * Pages are recycled as the DUT left them, so every octet that can differ from
 * zero is written each time. The verdict is not transmission: the port's
 * counters and redirect_errors are.
 */
#include "pace.h"

#define MAX_LANES 2
#define MAX_SIZES 64
#define FLOW_PORTS 50000

/* Set before loading; the verifier removes what does not apply. */
const volatile bool ipv6;
const volatile bool mixed; /* more than one size */
const volatile bool networked; /* frames go to several networks */
const volatile bool tagged; /* one VLAN tag */
const volatile u32 lanes = 1;

struct variant {
	u8 before[2]; /* octet 6 of the header lies on a multiple of 8, as in the frame */
	u8 header[88];
	u32 len;
	u32 ip_sum;
	u32 udp_sum;
	s32 shrink; /* octets off the tail of the largest frame: <= 0 */
	u32 pad;
};
_Static_assert(sizeof(struct variant) % 8 == 0, "so that every header is aligned");

struct lane {
	u32 ifindex;
	u32 addr_base;
	u32 port_base;
	u32 flows;
	u32 sizes;
	u32 answer;
	u32 networks;
	u32 first_addr; /* of the first flow, beyond addr_base and port_base */
	u32 first_port;
	/* state */
	u64 issued;
	u32 size;
	u32 flow;
	u32 flow_addr;
	u32 flow_port;
	u32 network;
	u64 first;
	u64 last;
	struct variant variants[MAX_SIZES] __attribute__((aligned(8)));
};

struct lane lane_state[MAX_LANES];

static __always_inline u16 fold(u32 s)
{
	s = (s >> 16) + (s & 0xffff);
	s = (s >> 16) + (s & 0xffff);
	return ~s;
}

SEC("xdp")
int send(struct xdp_md *ctx)
{
	void *data, *data_end;
	struct variant *v;
	struct lane *l;
	u64 now = 0, stamp, k;
	u32 lane, addr, port, size, word = 0;

	if (!under_way(&now) || (paced && !due(now)))
		return XDP_DROP;

	lane = 0;
	if (lanes > 1) {
		lane = sched.lane & (MAX_LANES - 1);
		sched.lane = lane ^ 1;
	}
	l = &lane_state[lane];
	size = 0;
	if (mixed) {
		size = l->size & (MAX_SIZES - 1);
		l->size = size + 1 >= l->sizes ? 0 : size + 1;
	}
	v = &l->variants[size];
	if (mixed && v->shrink && bpf_xdp_adjust_tail(ctx, v->shrink))
		return XDP_DROP;

	if (paced && pattern == OCTETS)
		paid(v->len + 4);

	data = (void *)(long)ctx->data;
	data_end = (void *)(long)ctx->data_end;
	if (data + (ipv6 ? 80 : 60) + (tagged ? 4 : 0) > data_end)
		return XDP_DROP;
	STORE16(data, LOAD16(v->header));
	STORE32(data + 2, LOAD32(v->header + 2));
#pragma unroll
	for (int i = 6; i < 54; i += 8)
		STORE64(data + i, LOAD64(v->header + i));
	if (ipv6) {
#pragma unroll
		for (int i = 54; i < 78; i += 8)
			STORE64(data + i, LOAD64(v->header + i));
		STORE16(data + 78, LOAD16(v->header + 78));
		if (tagged)
			store32_at2(data + 80, load32_at2(v->header + 80));
	} else {
		STORE32(data + 54, LOAD32(v->header + 54));
		STORE16(data + 58, LOAD16(v->header + 58));
		if (tagged)
			store32_at2(data + 60, load32_at2(v->header + 60));
	}
	if (tagged)
		data += 4;

	k = l->issued++;
	addr = l->addr_base + l->flow_addr;
	port = l->port_base + l->flow_port;
	if (++l->flow == l->flows) {
		l->flow = 0;
		l->flow_addr = l->first_addr;
		l->flow_port = l->first_port;
	} else if (++l->flow_port == FLOW_PORTS) {
		l->flow_port = 0;
		l->flow_addr++;
	}
	if (networked && l->networks > 1) {
		u32 n = l->network;

		l->network = n + 1 == l->networks ? 0 : n + 1;
		*(u8 *)(data + ETH_LEN + (ipv6 ? 24 + 6 : 16 + 2)) = n;
		word = (n & 0xff) << 8; /* of the checksums, that n is in */
	}
	if (now) {
		if (!l->first)
			l->first = now;
		l->last = now;
	} else {
		now = sched.now;
	}

	stamp = paced && sched.behind ? now | LATE : now;
	if (ipv6) {
		u32 sum = v->udp_sum + word + (addr >> 16) + (addr & 0xffff) + port +
			  (((u32)k >> 16) & 0xffff) + ((u32)k & 0xffff) + (stamp >> 48) +
			  ((stamp >> 32) & 0xffff) + ((stamp >> 16) & 0xffff) + (stamp & 0xffff);
		u16 csum = fold(sum);

		if (l->answer) {
			STORE32(data + ETH_LEN + 36, bpf_htonl(addr));
			STORE16(data + ETH_LEN + IP6_LEN + 2, bpf_htons(port));
		} else {
			STORE32(data + ETH_LEN + 20, bpf_htonl(addr));
			STORE16(data + ETH_LEN + IP6_LEN, bpf_htons(port));
		}
		STORE16(data + ETH_LEN + IP6_LEN + 6, bpf_htons(csum ? csum : 0xffff));
		store32_at2(data + ETH_LEN + IP6_LEN + UDP_LEN + 6, bpf_htonl((u32)k));
		store64_at2(data + ETH_LEN + IP6_LEN + UDP_LEN + 10, bpf_cpu_to_be64(stamp));
	} else {
		u16 csum = fold(v->ip_sum + word + (addr >> 16) + (addr & 0xffff));

		if (l->answer) {
			STORE32(data + ETH_LEN + 16, bpf_htonl(addr));
			STORE16(data + ETH_LEN + IP4_LEN + 2, bpf_htons(port));
		} else {
			STORE32(data + ETH_LEN + 12, bpf_htonl(addr));
			STORE16(data + ETH_LEN + IP4_LEN, bpf_htons(port));
		}
		STORE16(data + ETH_LEN + 10, bpf_htons(csum));
		store32_at2(data + ETH_LEN + IP4_LEN + UDP_LEN + 6, bpf_htonl((u32)k));
		store64_at2(data + ETH_LEN + IP4_LEN + UDP_LEN + 10, bpf_cpu_to_be64(stamp));
	}
	leaves(now);
	return bpf_redirect(l->ifindex, 0);
}

/*
 * Redirects that the kernel refused before any counter of a port saw them;
 * struct bpf_prog's id tells ours from others. Loaded apart from the sender.
 */
struct bpf_prog_aux {
	u32 id;
} __attribute__((preserve_access_index));

struct bpf_prog {
	struct bpf_prog_aux *aux;
} __attribute__((preserve_access_index));

#define LOOPBACK_IFINDEX 1 /* in every namespace */

struct net_device {
	int ifindex;
} __attribute__((preserve_access_index));

u32 sender_id;
u32 second_ifindex; /* the second lane's; 0: one lane */
u64 redirect_errors[MAX_LANES];

SEC("tp_btf/xdp_redirect_err")
int redirect_err(u64 *ctx)
{
	struct bpf_prog *prog = (struct bpf_prog *)ctx[1];
	u32 lane = (u32)ctx[6] == second_ifindex;

	if (prog->aux->id == sender_id)
		redirect_errors[lane & (MAX_LANES - 1)]++; /* one thread runs the sender: no race */
	return 0;
}

/*
 * Before Linux 6.3 redirects to a port that takes no frames are refused when a
 * bulk of them is handed to it. A tap drops the rest of a bulk without an error.
 * Those of live frames come from a loopback, in the call of the thread that sends:
 * other threads' are other senders', whose ports may have the same ifindex in
 * another namespace.
 */
const volatile u32 taps[MAX_LANES]; /* ifindexes */

/* The namespace of processes in which the sender's thread has its number. */
const volatile u64 pids_dev;
const volatile u64 pids_ino;
u32 sender_tid;

static __always_inline bool tap(u32 ifindex)
{
	return ifindex == taps[0] || ifindex == taps[1];
}

SEC("tp_btf/xdp_devmap_xmit")
int devmap_xmit(u64 *ctx)
{
	struct net_device *from = (struct net_device *)ctx[0];
	struct net_device *to = (struct net_device *)ctx[1];
	u32 lane = to->ifindex == second_ifindex;
	struct bpf_pidns_info thread;

	if (from->ifindex != LOOPBACK_IFINDEX || ((int)ctx[4] >= 0 && !tap(to->ifindex)))
		return 0;
	if (bpf_get_ns_current_pid_tgid(pids_dev, pids_ino, &thread, sizeof(thread)) || thread.pid != sender_tid)
		return 0;
	redirect_errors[lane & (MAX_LANES - 1)] += (u32)ctx[3];
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
