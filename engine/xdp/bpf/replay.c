// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The sender of the xdp backend for sources, run over and over by BPF_PROG_RUN
 * with live frames, on one thread:
 *
 *   window filled? -> entry -> due? (paced) -> length -> all octets -> draws, fields,
 *   addresses of the pass, signature, checksums -> redirect
 *
 * User space fills windows through mmap. A whole pass in memory is looped over;
 * otherwise a window that was sent is handed back to be filled again. What it
 * writes into a frame is what frame.Writer writes.
 */
#include "pace.h"

#define MAX_WINDOWS 64
#define MAX_DRAWS 8
#define MAX_FIELDS 16
#define MAX_CLASSES 16
#define OFFSET_MASK 0x3fff /* live frames are shorter */
#define EVEN_MASK (OFFSET_MASK & ~1) /* of what frame.Entry and frame.Field have at even offsets */

/* frame.Entry */
struct entry {
	u64 at;
	u32 off8;
	u16 len;
	u8 class;
	u8 flags;
	u16 l3;
	u16 l4;
	u16 sum;
	u16 sig;
};
_Static_assert(sizeof(struct entry) == 24, "frame.Entry has 24 octets");

enum { IS_IPV4 = 1, IS_IPV6 = 2, SUM_UDP = 4, REWRITE = 8 };
enum { COUNTER, RANDOM, LIST };
enum { FRAME_START, AT_L3, AT_L4 };
enum { SUMS_IP = 1, SUMS_L4 = 2 };

/* Whose turn it is with a window. */
enum { TO_FILL, TO_SEND, NO_MORE };

struct window {
	u32 turn;
	u32 first; /* index of its first entry */
	u32 count;
	u32 ends; /* the pass ends with it */
};

struct draw {
	u64 count; /* of a list, too */
	u32 list;  /* index of its first value */
	u8 kind;
	u8 class;
	u16 pad;
};

struct field {
	u32 from;
	u32 div;
	u32 mod;
	u32 step;
	u16 offset;
	u8 class;
	u8 draw;
	u8 base;
	u8 width;
	u8 sums;
	u8 pad;
};

/* Set before loading; the verifier removes what does not apply. */
const volatile u32 ifindex;
const volatile u32 longest;    /* frame, and what live frames begin as */
const volatile bool mixed;     /* more than one length */
const volatile u32 value_size; /* of blob */
const volatile u32 windows_in_use = 1;
const volatile bool looping; /* over windows that hold the whole pass */
const volatile bool unique;
const volatile bool is_signed;
const volatile u32 stream;
const volatile u32 draw_count;
const volatile u32 field_count;
const volatile struct draw draws[MAX_DRAWS];
const volatile struct field fields[MAX_FIELDS];

struct cursor {
	u64 passes; /* wanted; 0: any number */
	u64 pass;
	u64 octets; /* with FCS */
	u64 starved;
	u64 in_pass; /* frames of this pass so far */
	u64 first;   /* ns */
	u64 last;
	u32 window;
	u32 entry; /* index of the next one */
	u32 end;   /* of the window's last one + 1 */
	u32 open;  /* the window is under way */
	u32 waiting;
	u32 pad;
	u64 captured; /* entry.at of the last frame */
};

struct cursor here;
u64 draw_states[MAX_DRAWS];
u32 drawn[MAX_DRAWS];
u32 sequences[MAX_CLASSES];
struct {
	u64 ip, l4;
} grew; /* what the data of the frame's checksums grew by */

/* User space sets the sizes of these. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_WINDOWS);
	__type(key, u32);
	__type(value, struct window);
} windows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct entry);
} entries SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, 4096);
} blob SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64); /* values of an array lie 8 octets apart at least */
} lists SEC(".maps");

/* The window's frames have left. */
static __always_inline void close_window(void)
{
	struct window *w;
	u32 i = here.window;

	here.open = 0;
	here.window = i + 1 == windows_in_use ? 0 : i + 1;
	w = bpf_map_lookup_elem(&windows, &i);
	if (!w)
		return;
	if (w->ends) {
		/* Passes follow each other at the mean gap. */
		if (paced && pattern == CAPTURED) {
			u64 at = here.captured;

			sched.base += scaled(at + (here.in_pass > 1 ? at / (here.in_pass - 1) : 0));
		}
		here.in_pass = 0;
		here.pass++;
		if (here.pass == here.passes) {
			tick(clock());
			sched.done = 1;
		}
	}
	if (!looping)
		__sync_lock_test_and_set(&w->turn, TO_FILL); /* a full barrier, too */
}

/* Whether there is a window to send from; if not, the load is over or waits for its source. */
static __always_inline bool open_window(void)
{
	struct window *w;
	u32 turn, i = here.window;

	w = bpf_map_lookup_elem(&windows, &i);
	if (!w)
		return false;
	/* Full barriers: what user space wrote before is seen, on any CPU. */
	turn = looping ? TO_SEND : __sync_fetch_and_or(&w->turn, 0);
	if (turn == NO_MORE) {
		sched.done = 1;
		return false;
	}
	if (turn != TO_SEND) {
		u64 now;

		here.starved += !here.waiting;
		here.waiting = 1;
		lasts(&now);
		return false;
	}
	here.waiting = 0;
	if (!w->count) { /* the pass ended where the window before was full */
		close_window();
		return false;
	}
	here.entry = w->first;
	here.end = w->first + w->count;
	here.open = 1;
	return true;
}

/*
 * The n octets at off of a frame; NULL where they are not all there. The barrier
 * keeps clang from reordering what the verifier must see in this order.
 */
#define PLACE(data, data_end, off, n) ({                      \
	void *__p = (data) + ((u64)(off) & ((n) == 1 ? OFFSET_MASK : EVEN_MASK)); \
	asm volatile("" : "+r"(__p));                         \
	__p + (n) <= (data_end) ? __p : NULL;                 \
})

/* What sums of 16-bit words grow by when old becomes new; both are at most 32 bit. */
static __always_inline u64 grown(u32 old, u32 new)
{
	if (old == new)
		return 0;
	return (u64)(u16)~(old >> 16) + (u16)~old + (new >> 16) + (new & 0xffff);
}

static __always_inline u16 grow(u16 sum, u64 by)
{
	u64 s = (u64)(u16)~sum + by;

	s = (s >> 16) + (s & 0xffff);
	s = (s >> 16) + (s & 0xffff);
	s = (s >> 16) + (s & 0xffff);
	return ~s;
}

static __always_inline u64 put32(void *p, u32 value)
{
	u32 old = bpf_ntohl(load32_at2(p));

	store32_at2(p, bpf_htonl(value));
	return grown(old, value);
}

/* Writes value; what the sums grow by. */
static __always_inline u64 put16(void *p, u32 value)
{
	u32 old = bpf_ntohs(LOAD16(p));

	STORE16(p, bpf_htons(value));
	return grown(old, value & 0xffff);
}

static __always_inline u64 put8(u8 *p, u32 value, u32 shift)
{
	u32 old = *p;

	*p = value;
	return grown(old << shift, (value & 0xff) << shift);
}

/*
 * What follows up to edit are global functions: the verifier looks into each of
 * them once, and not on every path that leads there.
 */

/* Draws the next number of draw i. */
__noinline int advance_draw(u32 i)
{
	const volatile struct draw *d;
	u64 *state;
	u32 value;

	i &= MAX_DRAWS - 1;
	d = &draws[i];
	state = &draw_states[i];
	if (d->kind == COUNTER) {
		value = *state;
		if (++*state == d->count)
			*state = 0;
	} else {
		value = draw32(state);
		if (d->count)
			value = value * d->count >> 32;
		if (d->kind == LIST) {
			u32 at = d->list + value;
			u64 *v = bpf_map_lookup_elem(&lists, &at);

			value = v ? *v : 0;
		}
	}
	drawn[i] = value;
	return 0;
}

/* Writes field i into a frame of len octets. */
__noinline int put_field(struct xdp_md *ctx, struct entry *e, u32 i, u32 len)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end, *p;
	const volatile struct field *f;
	u32 at, v;
	u64 by = 0;

	if (!e)
		return 0;
	f = &fields[i & (MAX_FIELDS - 1)];
	at = f->offset;
	if (f->base != FRAME_START) {
		u32 base = f->base == AT_L3 ? e->l3 : e->l4;

		if (!base)
			return 0;
		at += base;
	}
	if (at + f->width > len)
		return 0;
	v = drawn[f->draw & (MAX_DRAWS - 1)];
	if (f->div > 1)
		v /= f->div;
	if (f->mod)
		v %= f->mod;
	v = f->from + v * f->step;
	if (f->width == 1) {
		p = PLACE(data, data_end, at, 1);
		if (p)
			by = put8(p, v, at & 1 ? 0 : 8);
	} else if (f->width == 2) {
		p = PLACE(data, data_end, at, 2);
		if (p)
			by = put16(p, v);
	} else {
		p = PLACE(data, data_end, at, 4);
		if (p)
			by = put32(p, v);
	}
	if (f->sums & SUMS_IP)
		grew.ip += by;
	if (f->sums & SUMS_L4)
		grew.l4 += by;
	return 0;
}

/* Adds the pass to the addresses. */
__noinline int put_pass(struct xdp_md *ctx, struct entry *e)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end, *p;
	u32 pass = here.pass, from, to;
	u64 by = 0;

	if (!e || !(e->flags & (IS_IPV4 | IS_IPV6)))
		return 0;
	from = e->flags & IS_IPV4 ? 12 : 20;
	to = from == 12 ? 16 : 36;
	p = PLACE(data, data_end, e->l3 + from, 4);
	if (p)
		by = put32(p, bpf_ntohl(load32_at2(p)) + pass);
	p = PLACE(data, data_end, e->l3 + to, 4);
	if (p)
		by += put32(p, bpf_ntohl(load32_at2(p)) + pass);
	grew.ip += by;
	if (e->flags & IS_IPV6 || e->sum != e->l4 + 2) /* ICMP's sum does not cover them */
		grew.l4 += by;
	return 0;
}

__noinline int put_signature(struct xdp_md *ctx, struct entry *e, u64 stamp)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end, *p;
	u32 class;

	if (!e)
		return 0;
	class = e->class & (MAX_CLASSES - 1);
	p = PLACE(data, data_end, e->sig, SIG_LEN);
	if (p) {
		grew.l4 += put16(p + 4, stream + class);
		grew.l4 += put32(p + 6, sequences[class]++);
		grew.l4 += put32(p + 10, stamp >> 32);
		grew.l4 += put32(p + 14, stamp);
	}
	return 0;
}

/* Mends the checksums of what grew. */
__noinline int put_sums(struct xdp_md *ctx, struct entry *e)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end, *p;

	if (!e)
		return 0;
	if (grew.ip && e->flags & IS_IPV4) {
		p = PLACE(data, data_end, e->l3 + 10, 2);
		if (p)
			STORE16(p, bpf_htons(grow(bpf_ntohs(LOAD16(p)), grew.ip)));
	}
	if (grew.l4 && e->sum) {
		p = PLACE(data, data_end, e->sum, 2);
		if (p) {
			u16 sum = grow(bpf_ntohs(LOAD16(p)), grew.l4);

			STORE16(p, bpf_htons(!sum && e->flags & SUM_UDP ? 0xffff : sum));
		}
	}
	return 0;
}

/* Writes what the frames of a class have of their own, and mends the checksums. */
static __always_inline void edit(struct xdp_md *ctx, struct entry *e, u32 len, u64 stamp)
{
	u32 class = e->class & (MAX_CLASSES - 1);

	grew.ip = grew.l4 = 0;
	for (u32 i = 0; i < MAX_DRAWS && i < draw_count; i++)
		if (draws[i].class == class)
			advance_draw(i);
	for (u32 i = 0; i < MAX_FIELDS && i < field_count; i++)
		if (fields[i].class == class)
			put_field(ctx, e, i, len);
	if (unique && e->flags & REWRITE)
		put_pass(ctx, e);
	if (is_signed && e->sig)
		put_signature(ctx, e, stamp);
	if (grew.ip || grew.l4)
		put_sums(ctx, e);
}

SEC("xdp")
int replay(struct xdp_md *ctx)
{
	struct entry *e;
	u64 now = 0, off, at;
	char *value;
	u32 i, len;

	if (!under_way(&now))
		return XDP_DROP;
	if (!here.open && !open_window())
		return XDP_DROP;
	i = here.entry;
	e = bpf_map_lookup_elem(&entries, &i);
	if (!e)
		return XDP_DROP;
	at = e->at;
	if (paced) {
		if (pattern == CAPTURED)
			due_as(at);
		if (!due(now))
			return XDP_DROP;
	}

	/* All octets: pages are recycled as the DUT left them. */
	len = e->len;
	off = (u64)e->off8 << 3;
	i = here.window;
	value = bpf_map_lookup_elem(&blob, &i);
	if (!value || len < ETH_LEN || len > longest || off > value_size - longest)
		return XDP_ABORTED;
	if (mixed && len != longest && bpf_xdp_adjust_tail(ctx, (s32)len - (s32)longest))
		return XDP_ABORTED;
	if (bpf_xdp_store_bytes(ctx, 0, value + off, len))
		return XDP_ABORTED;
	if (now) {
		if (!here.first)
			here.first = now;
		here.last = now;
	} else {
		now = sched.now;
	}
	if (unique || is_signed || field_count)
		edit(ctx, e, len, paced && sched.behind ? now | LATE : now);
	if (paced && pattern == OCTETS)
		paid(len + 4);
	here.octets += len + 4;
	here.captured = at;
	here.in_pass++;
	if (++here.entry == here.end)
		close_window();
	leaves(now);
	return bpf_redirect(ifindex, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
