/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What conn.c knows of a trial and of its connections, and what it counts. */
#pragma once
#include "pace.h"

#define SEGMENT 1460 /* maxSegment in engine/conn/conn.go */
#define REQUEST 256

/* Keep in step with engine/conn/conn.go. */
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
	u32 redirects; /* replies leave by a redirect, not by XDP_TX */
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
