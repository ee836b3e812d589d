/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* TCP segments over IPv4: what came is parsed, and what is sent is written. */
#pragma once
#include "conn.h"

#define ETH_P_IP 0x0800
#define TCP 6
#define TCP_LEN 20
#define HEADERS (ETH_LEN + IP4_LEN + TCP_LEN)

#define FIN 1
#define SYN 2
#define RST 4
#define PSH 8
#define ACK 16

static __always_inline u16 fold(u64 s)
{
	s = (s >> 32) + (s & 0xffffffff);
	s = (s >> 32) + (s & 0xffffffff);
	s = (s >> 16) + (s & 0xffff);
	s = (s >> 16) + (s & 0xffff);
	s = (s >> 16) + (s & 0xffff);
	return ~s;
}

/* A segment that is to be sent. */
struct out {
	u32 src, dst; /* network order */
	u32 ports;    /* both, as in the header */
	u32 seq, ack; /* host order */
	u32 flags;
	u32 len; /* of its data */
	u32 sum; /* of its data */
};

/* Writes headers from data + ETH_LEN on; with SYN, the MSS option, too. */
static __always_inline void headers(void *data, const struct out *o)
{
	void *ip = data + ETH_LEN, *tcp = ip + IP4_LEN;
	bool syn = o->flags & SYN;
	u32 head = syn ? TCP_LEN + 4 : TCP_LEN;
	u32 first = bpf_htonl(0x45000000 | (IP4_LEN + head + o->len));
	u32 frag = bpf_htonl(0x4000); /* no fragments */
	u32 ttl = bpf_htonl(64 << 24 | TCP << 16);
	u32 seq = bpf_htonl(o->seq), ack = bpf_htonl(o->ack);
	u32 flags = bpf_htonl(head << 26 | o->flags << 16 | 0xffff);
	u32 mss = syn ? bpf_htonl(2 << 24 | 4 << 16 | cfg.segment) : 0;
	u64 sum = (u64)o->src + o->dst;

	STORE32(ip, first);
	STORE32(ip + 4, frag);
	STORE32(ip + 8, ttl);
	STORE16(ip + 10, fold(sum + first + frag + ttl));
	STORE32(ip + 12, o->src);
	STORE32(ip + 16, o->dst);
	STORE32(tcp, o->ports);
	STORE32(tcp + 4, seq);
	STORE32(tcp + 8, ack);
	STORE32(tcp + 12, flags);
	STORE32(tcp + 16, 0);
	if (syn)
		STORE32(tcp + 20, mss);
	STORE16(tcp + 16, fold(sum + bpf_htonl(TCP << 16 | (head + o->len)) + o->ports +
			       seq + ack + flags + mss + o->sum));
}

/* A segment that came, host order. */
struct in {
	u32 src, dst;
	u32 sport, dport;
	u32 seq, ack;
	u32 flags;
	u32 len;
};

/* Whether the frame is whole TCP over IPv4 without IP options. */
static __always_inline bool parse(struct xdp_md *ctx, struct in *in)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	void *ip = data + ETH_LEN, *tcp = ip + IP4_LEN;
	u32 total, head, word;

	if (data + HEADERS > data_end || LOAD16(data + 12) != bpf_htons(ETH_P_IP))
		return false;
	word = bpf_ntohl(LOAD32(ip + 8));
	if (*(u8 *)ip != 0x45 || ((word >> 16) & 0xff) != TCP || (bpf_ntohs(LOAD16(ip + 6)) & 0x3fff))
		return false;
	total = bpf_ntohs(LOAD16(ip + 2));
	word = bpf_ntohl(LOAD32(tcp + 12));
	head = word >> 28 << 2;
	if (head < TCP_LEN || total < IP4_LEN + head)
		return false;
	in->src = bpf_ntohl(LOAD32(ip + 12));
	in->dst = bpf_ntohl(LOAD32(ip + 16));
	in->sport = bpf_ntohs(LOAD16(tcp));
	in->dport = bpf_ntohs(LOAD16(tcp + 2));
	in->seq = bpf_ntohl(LOAD32(tcp + 4));
	in->ack = bpf_ntohl(LOAD32(tcp + 8));
	in->flags = (word >> 16) & (FIN | SYN | RST | ACK);
	in->len = total - IP4_LEN - head;
	return true;
}

/*
 * Turns the frame that came into a reply with o's headers and data from body.
 * Frames of a driver have room behind them; those that the kernel made and copied
 * for XDP may have some before them only.
 */
static __always_inline bool reply(struct xdp_md *ctx, const struct in *in, struct out *o, const void *body)
{
	u32 size = (o->flags & SYN ? HEADERS + 4 : HEADERS) + o->len, n = o->len;
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	u16 mac[6];
	int more;

	if (data + HEADERS > data_end)
		return false;
#pragma unroll
	for (int i = 0; i < 6; i++)
		mac[i] = LOAD16(data + 2 * i);
	if (size < 60)
		size = 60;
	more = size - (u32)bpf_xdp_get_buff_len(ctx);
	if (bpf_xdp_adjust_tail(ctx, more) && (more < 0 || bpf_xdp_adjust_head(ctx, -more)))
		return false;
	data = (void *)(long)ctx->data;
	data_end = (void *)(long)ctx->data_end;
	if (data + 60 > data_end)
		return false;
	o->src = bpf_htonl(in->dst);
	o->dst = bpf_htonl(in->src);
	o->ports = bpf_htonl(in->dport << 16 | in->sport);
#pragma unroll
	for (int i = 0; i < 3; i++) { /* the MAC addresses change places */
		STORE16(data + 2 * i, mac[i + 3]);
		STORE16(data + 6 + 2 * i, mac[i]);
	}
	STORE16(data + 12, bpf_htons(ETH_P_IP));
	if (!n) { /* what pads the frame */
		STORE32(data + HEADERS, 0);
		STORE16(data + HEADERS + 4, 0);
	}
	headers(data, o);
	if (!n)
		return true;
	if (n > SEGMENT)
		return false;
	/* Says the same once more in the way in which the verifier of Linux 6.1 takes it: n is not 0, and fits. */
	asm volatile("" : "+r"(n));
	n = ((n - 1) & 2047) + 1;
	asm volatile("" : "+r"(n));
	if (n > SEGMENT)
		return false;
	return !bpf_xdp_store_bytes(ctx, HEADERS, (void *)body, n);
}
