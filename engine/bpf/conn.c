/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * TCP without sockets, for new-connection load: one frame in, one frame out of the
 * same port. Connection k of a trial, with what it leaves behind in conns[k]:
 *
 *   client port                          DUT                          server port
 *   opening  (BPF_PROG_RUN) SYN        ------->  SYN                       server
 *            OPENING                  <-------   SYN-ACK
 *   client   ESTABLISHED  ACK, request ------->  first segment             server
 *            RECEIVING                <-------   (the last one with FIN)
 *   client   ACK                       ------->  next segment ...
 *   client   CLOSING      FIN-ACK      ------->  ACK
 *            CLOSED                   <-------
 *
 * With hold the last segment has no FIN and leaves WHOLE; `closing` then sends
 * FIN-ACK (FINISHING), the server answers with its own (CLOSED), the client
 * acknowledges it.
 *
 * The server keeps nothing: its sequence number is a hash of the addresses, and
 * what to send next is told by what the client acknowledges. One segment is
 * under way at a time. Nothing is sent again: a lost frame is a failed connection.
 * Frames that are none of ours go to the stack.
 */
#include "pace.h"

#define ETH_P_IP 0x0800
#define TCP 6
#define TCP_LEN 20
#define HEADERS (ETH_LEN + IP4_LEN + TCP_LEN)
#define SEGMENT 1460 /* maxSegment in engine/conn.go */
#define REQUEST 256

#define FIN 1
#define SYN 2
#define RST 4
#define PSH 8
#define ACK 16

/* Keep in step with engine/conn.go. */
enum state {
	NONE,
	OPENING,
	ESTABLISHED,
	RECEIVING,
	WHOLE,
	FINISHING,
	CLOSING,
	CLOSED,
	SHORT, /* the server closed before its response was whole */
	RESET = 16, /* added to the state that it ended */
};

struct entry {
	u64 opened; /* ns */
	u32 next;   /* sequence number expected of the server, host order */
	u32 got;    /* octets of the response */
	u32 state;
	u32 pad;
};

/* What both ends and the senders know; addresses in network order but where they
 * are counted on from. */
struct setup {
	u32 client; /* host order: the first of `clients` addresses */
	u32 clients;
	u32 server;
	u32 client_port; /* host order: the first of `ports` */
	u32 ports;
	u32 server_port; /* host order: the first of `services` */
	u32 services;
	u32 first;  /* tuple of connection 0 */
	u32 tuples; /* clients * services * ports */
	u32 seed;
	u32 ifindex;  /* the client's port */
	u32 request;  /* octets */
	u32 response; /* octets; 0: until the server closes (client only) */
	u32 segment;
	u32 hold;
	u32 request_sum; /* one's complement sums, as memory has them */
	u32 first_sum;   /* of the response's first segment */
	u32 more_sum;    /* of a whole one that follows */
	u32 last_sum;    /* of the last one, if it is not the first */
	u8 client_mac[6];
	u8 gateway_mac[6];
	u8 pad[4];
};

struct setup cfg;
u8 request[REQUEST];
u8 response_first[SEGMENT];
u8 response_more[SEGMENT];
u64 issued;  /* SYNs, or FINs, of the sender under way */
u64 skipped; /* closing: connections that were not WHOLE */
u64 sender_first, sender_last; /* ns */

struct client_counts {
	u64 frames; /* for this end */
	u64 replies;
	u64 octets; /* of responses, in order */
	u64 established;
	u64 first;
	u64 whole;
	u64 closed;
	u64 resets;
	u64 stray; /* of no connection, or not what was due in its state */
	u64 disorder;
	u64 no_room; /* replies that the port's buffers did not hold */
	u64 last; /* ns, when a connection was last whole or closed */
	u64 whole_at; /* ns, when a response was last whole */
	u64 handshake[BUCKETS];
	u64 first_byte[BUCKETS];
};

struct server_counts {
	u64 frames;
	u64 replies;
	u64 opened; /* SYNs */
	u64 requests;
	u64 segments;
	u64 octets;
	u64 fins;
	u64 resets;
	u64 stray;
	u64 no_room; /* segments that the port's buffers did not hold */
};

/* User space sets the size. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct entry);
} conns SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct client_counts);
} client_stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct server_counts);
} server_stats SEC(".maps");

/* murmur3's finalizer */
static __always_inline u32 mix(u32 x)
{
	x ^= x >> 16;
	x *= 0x85ebca6b;
	x ^= x >> 13;
	x *= 0xc2b2ae35;
	return x ^ (x >> 16);
}

static __always_inline u32 client_isn(u32 tuple) { return mix(tuple ^ cfg.seed); }

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

static __always_inline void tuple_of(u32 tuple, u32 *addr, u32 *sport, u32 *dport)
{
	u32 ports = cfg.ports ?: 1, services = cfg.services ?: 1;
	u32 rest = tuple / ports;

	*sport = cfg.client_port + tuple % ports;
	*dport = cfg.server_port + rest % services;
	*addr = cfg.client + rest / services;
}

static __always_inline u32 wrapped(u32 k)
{
	u32 tuple = cfg.first + k;

	return tuple >= cfg.tuples ? tuple - cfg.tuples : tuple;
}

/* Sends connection k's SYN or FIN-ACK, e's state being set. */
static __always_inline int send(struct xdp_md *ctx, u32 tuple, struct out *o, u64 now)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	u32 addr, sport, dport;

	if (data + 60 > data_end)
		return XDP_DROP;
	tuple_of(tuple, &addr, &sport, &dport);
	o->src = bpf_htonl(addr);
	o->dst = cfg.server;
	o->ports = bpf_htonl(sport << 16 | dport);
#pragma unroll
	for (int i = 0; i < 6; i++) {
		*(u8 *)(data + i) = cfg.gateway_mac[i];
		*(u8 *)(data + 6 + i) = cfg.client_mac[i];
	}
	STORE16(data + 12, bpf_htons(ETH_P_IP));
	STORE32(data + HEADERS, 0);
	STORE16(data + HEADERS + 4, 0);
	headers(data, o);
	if (!sender_first)
		sender_first = now;
	sender_last = now;
	leaves(now);
	return bpf_redirect(cfg.ifindex, 0);
}

SEC("xdp")
int opening(struct xdp_md *ctx)
{
	struct out o = {.flags = SYN};
	struct entry *e;
	u64 now = 0;
	u32 k, tuple;

	if (!under_way(&now) || (paced && !due(now)))
		return XDP_DROP;
	k = issued;
	e = bpf_map_lookup_elem(&conns, &k);
	if (!e) { /* no room for more */
		sched.done = 1;
		return XDP_DROP;
	}
	if (!paced)
		now = clock();
	tuple = wrapped(k);
	o.seq = client_isn(tuple);
	e->opened = now;
	e->next = 0;
	e->got = 0;
	e->state = OPENING;
	issued++;
	return send(ctx, tuple, &o, now);
}

SEC("xdp")
int closing(struct xdp_md *ctx)
{
	struct out o = {.flags = FIN | ACK};
	struct entry *e;
	u64 now = 0;
	u32 k, tuple;

	if (!under_way(&now) || (paced && !due(now)))
		return XDP_DROP;
	k = issued++;
	e = bpf_map_lookup_elem(&conns, &k);
	if (!e) {
		sched.done = 1;
		return XDP_DROP;
	}
	if (e->state != WHOLE) {
		skipped++;
		sched.sent++;
		return XDP_DROP;
	}
	if (!paced)
		now = clock();
	tuple = wrapped(k);
	o.seq = client_isn(tuple) + 1 + cfg.request;
	o.ack = e->next;
	e->state = FINISHING;
	return send(ctx, tuple, &o, now);
}

static __always_inline void note(u64 *counts, u64 ns)
{
	u32 i = bucket(ns);

	if (i < BUCKETS)
		counts[i]++;
}

/* The segment comes from the server on connection e. o is the answer; false: none. */
static __always_inline bool receive(struct client_counts *c, struct entry *e, const struct in *in, u32 isn, struct out *o)
{
	u32 state = e->state;
	u64 now;

	if (in->flags & RST) {
		if (state >= OPENING && state < CLOSED) {
			e->state = state + RESET;
			c->resets++;
		} else {
			c->stray++;
		}
		return false;
	}
	o->flags = ACK;
	o->seq = isn + 1 + cfg.request;
	if (in->flags == (SYN | ACK)) {
		if (state != OPENING || in->ack != isn + 1) {
			c->stray++;
			return false;
		}
		note(c->handshake, clock() - e->opened);
		c->established++;
		e->state = ESTABLISHED;
		e->next = in->seq + 1;
		o->flags = ACK | PSH;
		o->seq = isn + 1;
		o->ack = e->next;
		o->len = cfg.request;
		o->sum = cfg.request_sum;
		return true;
	}
	if (!(in->flags & ACK) || state < ESTABLISHED || state >= CLOSED) {
		c->stray++;
		return false;
	}
	if (in->seq != e->next) {
		c->disorder++;
		return false;
	}
	if (state == CLOSING) {
		if (in->ack == isn + 2 + cfg.request && !in->len) {
			e->state = CLOSED;
			c->closed++;
			c->last = clock();
		} else {
			c->stray++;
		}
		return false;
	}
	if (!in->len && !(in->flags & FIN))
		return false; /* a bare acknowledgement */
	now = clock();
	if (in->len) {
		if (state == ESTABLISHED) {
			note(c->first_byte, now - e->opened);
			c->first++;
			e->state = state = RECEIVING;
		}
		c->octets += in->len;
		e->got += in->len;
		e->next += in->len;
		if (cfg.hold && cfg.response && e->got == cfg.response && state == RECEIVING) {
			c->whole++;
			c->last = c->whole_at = now;
			e->state = state = WHOLE;
		}
	}
	if (in->flags & FIN) {
		e->next++;
		if (state == FINISHING) {
			e->state = CLOSED;
			c->closed++;
			c->last = now;
		} else if (cfg.response && e->got != cfg.response) {
			e->state = SHORT;
			o->flags = FIN | ACK;
		} else {
			if (state != WHOLE) {
				c->whole++;
				c->last = c->whole_at = now;
			}
			e->state = CLOSING;
			o->flags = FIN | ACK;
		}
	}
	if (state == FINISHING)
		o->seq++; /* our FIN */
	o->ack = e->next;
	return true;
}

SEC("xdp")
int client(struct xdp_md *ctx)
{
	struct client_counts *c;
	struct out o = {};
	struct entry *e;
	struct in in;
	u32 zero = 0, addr, sport, dport, tuple, k;

	if (!parse(ctx, &in))
		return XDP_PASS;
	addr = in.dst - cfg.client;
	sport = in.dport - cfg.client_port;
	dport = in.sport - cfg.server_port;
	if (bpf_htonl(in.src) != cfg.server || addr >= cfg.clients || sport >= cfg.ports || dport >= cfg.services)
		return XDP_PASS;
	c = bpf_map_lookup_elem(&client_stats, &zero);
	if (!c)
		return XDP_DROP;
	c->frames++;
	tuple = (addr * cfg.services + dport) * cfg.ports + sport;
	k = tuple >= cfg.first ? tuple - cfg.first : tuple + cfg.tuples - cfg.first;
	e = bpf_map_lookup_elem(&conns, &k);
	if (!e) {
		c->stray++;
		return XDP_DROP;
	}
	if (!receive(c, e, &in, client_isn(tuple), &o))
		return XDP_DROP;
	if (!reply(ctx, &in, &o, request)) {
		c->no_room++;
		return XDP_DROP;
	}
	c->replies++;
	return XDP_TX;
}

/* What the client's segment asks for; false: nothing. */
static __always_inline bool serve(struct server_counts *s, const struct in *in, u32 isn, struct out *o, const void **body)
{
	u32 off = in->ack - isn - 1, left, n;

	if (in->flags & RST) {
		s->resets++;
		return false;
	}
	if (in->flags == SYN) {
		s->opened++;
		o->flags = SYN | ACK;
		o->seq = isn;
		o->ack = in->seq + 1;
		return true;
	}
	if (!(in->flags & ACK) || (in->flags & SYN) || off > cfg.response + 1) {
		s->stray++;
		return false;
	}
	o->seq = in->ack;
	o->ack = in->seq + in->len;
	o->flags = ACK;
	if (in->flags & FIN) {
		s->fins++;
		o->ack++;
		if (off <= cfg.response)
			o->flags = FIN | ACK;
		return true;
	}
	if (off >= cfg.response || (!off && !in->len))
		return false; /* the last acknowledgement; that of the handshake alone */
	if (off % (cfg.segment ?: 1)) {
		s->stray++;
		return false;
	}
	left = cfg.response - off;
	n = left < cfg.segment ? left : cfg.segment;
	o->len = n;
	o->flags = ACK | PSH;
	if (n == left && !cfg.hold)
		o->flags |= FIN;
	if (!off) {
		s->requests++;
		o->sum = cfg.first_sum;
		*body = response_first;
	} else {
		o->sum = n == left ? cfg.last_sum : cfg.more_sum;
		*body = response_more;
	}
	s->segments++;
	s->octets += n;
	return true;
}

SEC("xdp")
int server(struct xdp_md *ctx)
{
	const void *body = response_first;
	struct server_counts *s;
	struct out o = {};
	struct in in;
	u32 zero = 0, isn;

	if (!parse(ctx, &in))
		return XDP_PASS;
	if (bpf_htonl(in.dst) != cfg.server || in.dport - cfg.server_port >= cfg.services)
		return XDP_PASS;
	s = bpf_map_lookup_elem(&server_stats, &zero);
	if (!s)
		return XDP_DROP;
	s->frames++;
	isn = mix(mix(in.src ^ cfg.seed) ^ (in.sport << 16 | in.dport));
	if (!serve(s, &in, isn, &o, &body))
		return XDP_DROP;
	if (!reply(ctx, &in, &o, body)) {
		s->no_room++;
		return XDP_DROP;
	}
	s->replies++;
	return XDP_TX;
}

char _license[] SEC("license") = "Dual BSD/GPL";
