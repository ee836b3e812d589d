// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What the DUT's ports run:
 *
 *   pass        native XDP that lets everything by: it gives a veth its NAPI
 *   police_*    native XDP with a token bucket: a planted limit
 *   lose_*      clsact ingress that loses frames by a pattern: planted loss
 *
 * Programs count nothing for the ledger: the driver (xdp_drops) and the qdisc
 * (drops) do. Those of the drop services are in service/bpf/drop.c.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

/* A planted policer: frame/s, and the frames that its bucket holds. */
const volatile __u64 police_rate;
const volatile __u64 police_burst;

/* Planted loss: the last lose_run of each lose_period frames of a port, and those
 * whose chance, a hash of seed, port and number, lies below lose_below.
 */
const volatile __u64 lose_period;
const volatile __u64 lose_run;
const volatile __u64 lose_below;
const volatile __u64 lose_seed;

/* One frame, in units of the bucket: a rate in frame/s times ns, so that nothing
 * is rounded.
 */
#define FRAME 1000000000ULL

/* Longer pauses fill every bucket, and the product fits in 64 bit. */
#define LONGEST (100 * FRAME)

struct bucket {
	struct bpf_spin_lock lock;
	__u64 last; /* ns */
	__u64 credit;
};

/* By port: lan, wan. Of all CPUs together. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct bucket);
} buckets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

static __always_inline int police(__u32 port)
{
	struct bucket *b = bpf_map_lookup_elem(&buckets, &port);
	const __u64 most = police_burst * FRAME;
	__u64 now, credit, past = 0;
	int verdict = XDP_DROP;

	if (!b)
		return XDP_ABORTED;
	now = bpf_ktime_get_ns(); /* another CPU may have looked later and come first */
	bpf_spin_lock(&b->lock);
	if (now > b->last) {
		past = now - b->last;
		b->last = now;
	}
	credit = past > LONGEST ? most : b->credit + past * police_rate;
	if (credit > most)
		credit = most;
	if (credit >= FRAME) {
		credit -= FRAME;
		verdict = XDP_PASS;
	}
	b->credit = credit;
	bpf_spin_unlock(&b->lock);
	return verdict;
}

/* splitmix64's finaliser. */
static __always_inline __u64 scramble(__u64 x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ULL;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

static __always_inline int lose(__u32 port)
{
	__u64 *count = bpf_map_lookup_elem(&seen, &port);
	__u64 n;

	if (!count)
		return TC_ACT_OK;
	n = __sync_fetch_and_add(count, 1);
	if (lose_period && n % lose_period >= lose_period - lose_run)
		return TC_ACT_SHOT;
	if (lose_below && scramble((n + 1) * 0x9e3779b97f4a7c15ULL + scramble(2 * lose_seed + port)) < lose_below)
		return TC_ACT_SHOT;
	return TC_ACT_OK;
}

SEC("xdp")
int police_lan(struct xdp_md *ctx)
{
	return police(0);
}

SEC("xdp")
int police_wan(struct xdp_md *ctx)
{
	return police(1);
}

SEC("tc")
int lose_lan(struct __sk_buff *skb)
{
	return lose(0);
}

SEC("tc")
int lose_wan(struct __sk_buff *skb)
{
	return lose(1);
}

SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
