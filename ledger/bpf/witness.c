// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Names frames that end where the kernel keeps no counter of the namespace, at
 * the tracepoint that every dropped frame passes:
 *
 *   route that refuses   IPv4 blackhole, prohibit, unreachable; IPv6 blackhole
 *   NEIGH_FAILED         waited for an address that nobody answered for
 *   NEIGH_QUEUEFULL      found the queue full in which frames wait for an address,
 *                        which the kernel counts for all namespaces together
 *   QUEUE_PURGE          the same, when another frame came while they were being ended
 *                        (neigh_invalidate; since 6.6)
 *   CPU_BACKLOG          found a CPU's backlog full, which the kernel counts for all
 *                        namespaces together
 *
 * What has a counter of its own (missing routes; IPv6 prohibit and unreachable;
 * refusals with forwarding off) is left to that counter. The tracepoint may miss
 * frames when it interrupts itself, and never invents one.
 */
#include <asm-generic/errno.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define UNRESOLVED 1000 /* causes beside the errnos; ledger/witness.go */
#define QUEUE_FULL 1001
#define BACKLOG_FULL 1002
#define DST_NOREF 1UL   /* flag in skb->_skb_refdst */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct ipv4_devconf {
	int data[1]; /* [0] is IPV4_DEVCONF_FORWARDING - 1 */
};

struct in_device {
	struct ipv4_devconf cnf;
};

struct net_device {
	possible_net_t nd_net;
	struct in_device *ip_ptr;
};

struct sk_buff {
	struct net_device *dev;
	void *sk;
	unsigned long _skb_refdst;
	__be16 protocol;
};

struct dst_entry {
	short error;
};

enum skb_drop_reason { /* relocated */
	SKB_DROP_REASON_NEIGH_FAILED = 1,
	SKB_DROP_REASON_QUEUE_PURGE = 2,
	SKB_DROP_REASON_NEIGH_QUEUEFULL = 3,
	SKB_DROP_REASON_CPU_BACKLOG = 4,
};
#pragma clang attribute pop

struct key {
	__u32 netns; /* inode */
	__u32 cause; /* errno of the route, or one of the above */
};

/* User space adds the keys that it wants counted. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct key);
	__type(value, __u64);
} counts SEC(".maps");

static __always_inline void count(struct net_device *dev, __u32 cause)
{
	struct key key = {.netns = dev->nd_net.net->ns.inum, .cause = cause};
	__u64 *n = bpf_map_lookup_elem(&counts, &key);

	if (n)
		__sync_fetch_and_add(n, 1);
}

#define is(reason, name) \
	(bpf_core_enum_value_exists(enum skb_drop_reason, name) && \
	 (reason) == bpf_core_enum_value(enum skb_drop_reason, name))

SEC("tp_btf/kfree_skb")
int BPF_PROG(dropped, struct sk_buff *skb, void *location, enum skb_drop_reason reason)
{
	struct dst_entry *dst = (void *)(skb->_skb_refdst & ~DST_NOREF);
	int error;

	if (is(reason, SKB_DROP_REASON_CPU_BACKLOG)) {
		count(skb->dev, BACKLOG_FULL);
		return 0;
	}
	if (!dst || skb->sk) /* never routed, or the DUT's own */
		return 0;
	if (is(reason, SKB_DROP_REASON_NEIGH_FAILED) || is(reason, SKB_DROP_REASON_QUEUE_PURGE)) {
		count(skb->dev, UNRESOLVED);
		return 0;
	}
	if (is(reason, SKB_DROP_REASON_NEIGH_QUEUEFULL)) {
		count(skb->dev, QUEUE_FULL);
		return 0;
	}
	error = BPF_CORE_READ(dst, error);
	if (!error)
		return 0;
	if (error < 0)
		error = -error;
	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		if (error != EINVAL)
			return 0; /* Ip6InNoRoutes */
	} else if (error == EHOSTUNREACH && !skb->dev->ip_ptr->cnf.data[0]) {
		return 0; /* InAddrErrors */
	}
	count(skb->dev, error);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
