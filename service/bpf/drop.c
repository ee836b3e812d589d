// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What a DUT's ports run to throw test frames away:
 *
 *   drop_xdp    before the kernel makes an skb
 *   drop_tc     in clsact ingress, whose qdisc counts them
 *
 * drop_xdp counts on request: a driver's own counter, where there is one, has other
 * drops, too, and generic XDP has none.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* UDP destination port of test frames, host byte order. */
const volatile __u16 test_port;

const volatile __u8 counting;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} dropped SEC(".maps");

static __always_inline int is_test(void *data, void *end)
{
	struct ethhdr *eth = data;
	struct udphdr *udp;

	if ((void *)(eth + 1) > end)
		return 0;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl != 5 ||
		    ip->protocol != IPPROTO_UDP || ip->frag_off & bpf_htons(0x1fff))
			return 0;
		udp = (void *)(ip + 1);
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip6 = (void *)(eth + 1);

		if ((void *)(ip6 + 1) > end || ip6->nexthdr != IPPROTO_UDP)
			return 0;
		udp = (void *)(ip6 + 1);
	} else {
		return 0;
	}
	return (void *)(udp + 1) <= end && udp->dest == bpf_htons(test_port);
}

SEC("xdp")
int drop_xdp(struct xdp_md *ctx)
{
	const __u32 zero = 0;
	__u64 *n;

	if (!is_test((void *)(long)ctx->data, (void *)(long)ctx->data_end))
		return XDP_PASS;
	if (counting) {
		n = bpf_map_lookup_elem(&dropped, &zero);
		if (n)
			++*n;
	}
	return XDP_DROP;
}

SEC("tc")
int drop_tc(struct __sk_buff *skb)
{
	const __u32 most = sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + sizeof(struct udphdr);

	/* Headers may lie outside the linear part. */
	if ((void *)(long)skb->data + most > (void *)(long)skb->data_end)
		bpf_skb_pull_data(skb, skb->len < most ? skb->len : most);
	return is_test((void *)(long)skb->data, (void *)(long)skb->data_end) ? TC_ACT_SHOT : TC_ACT_OK;
}

char _license[] SEC("license") = "Dual BSD/GPL";
