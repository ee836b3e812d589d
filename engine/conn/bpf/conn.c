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
#include "segment.h"

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

/*
 * A reply leaves by the port that it came to. A veth wakes its far end after XDP_TX only
 * if that has an XDP program itself (veth_xdp_flush), but always after a redirect.
 */
static __always_inline int back(struct xdp_md *ctx)
{
	return cfg.redirects ? bpf_redirect(ctx->ingress_ifindex, 0) : XDP_TX;
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
	return back(ctx);
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
	return back(ctx);
}

char _license[] SEC("license") = "Dual BSD/GPL";
