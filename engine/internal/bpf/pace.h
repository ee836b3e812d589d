/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The open-loop schedule of sender.c and replay.c, in 1/65536 ns from its origin,
 * which is when the first frame runs, or when several senders begin together:
 *
 *   under_way: over? -> [captured: due_as] -> due? -> [octets: paid] -> leaves: histograms
 *
 * Frames that are not due leave as XDP_DROP, and the program runs again 60 ns later.
 */
#pragma once

#include "bucket.h"

#define STALL_NS 50000
#define CLOCK_MASK 63 /* flat out, the clock is read every 64 frames */
#define POISSON_GAPS 4096
#define LATE_FLOOR (1000ull << 16) /* lateFloor in engine/internal/pace/pace.go */

/* Keep in step with engine/xdp/schedule.go. */
enum pattern {
	CONSTANT, /* bursts of `burst` frames, each due with its last frame's time */
	POISSON,  /* gaps drawn from poisson_gaps */
	BURSTS,   /* bursts of `burst` frames, each due with its first frame's time */
	OCTETS,   /* the next frame is due when the last one's octets are over */
	CAPTURED, /* at the entries' own times */
};

/* Set before loading; the verifier removes what does not apply. */
const volatile bool paced;
const volatile u32 pattern;
const volatile u32 burst = 1;
const volatile bool shift; /* late frames move the schedule */
const volatile u64 slip;   /* 1/65536 ns by which frames may fall behind and catch up at once */
const volatile bool gaps;  /* histograms */
const volatile bool scripted; /* tests: the clock reads script_now */

struct schedule {
	u64 interval; /* 1/65536 ns between frames of all lanes, in the mean */
	u64 duration; /* ns; 0: none */
	u64 count;    /* frames of all lanes; 0: no limit */
	u64 factor;   /* times 2^down: 1/65536 ns an octet (OCTETS), or a captured ns (CAPTURED) */
	u64 down;
	u64 then;    /* pattern CONSTANT: the interval from then_at on, 1/65536 ns of the schedule; 0: none */
	u64 then_at;
	/* state */
	u64 changed; /* ns, when the first frame at that interval left */
	u64 chance; /* pattern POISSON: xorshift64*; not 0 */
	u64 origin; /* ns */
	u64 due;    /* next frame or burst */
	u64 gap;    /* of the schedule, before it */
	u64 base;   /* pattern CAPTURED: when the pass began */
	u64 moved;  /* by late frames, with shift */
	u64 last;   /* burst: when it left, or could have, up to slip before */
	u64 asked;  /* the schedule's gap before the frame that leaves */
	u64 before; /* ns, when the last frame left */
	u64 now;    /* ns, at the last reading of the clock */
	u64 usual;  /* ns between the last two readings without a stall */
	u64 sent;
	u64 late;
	u64 stalls;
	u64 longest_stall;
	u32 left; /* frames of the burst under way */
	u32 behind;
	u32 lane;
	u32 done;
};

struct schedule sched;
u64 script_now;
u64 poisson_gaps[POISSON_GAPS]; /* 1/65536 ns; their mean is the interval */
u64 gap_counts[BUCKETS];
u64 gap_errors[BUCKETS];

static __always_inline u64 clock(void)
{
	return scripted ? script_now : bpf_ktime_get_ns();
}

/* A stall is time beyond what the frames since the last reading took before. */
static __always_inline void tick(u64 now)
{
	u64 stood = now - sched.now;

	if (sched.now && stood > STALL_NS + 2 * sched.usual) {
		sched.stalls++;
		if (stood - sched.usual > sched.longest_stall)
			sched.longest_stall = stood - sched.usual;
	} else if (sched.now) {
		sched.usual = stood;
	}
	sched.now = now;
}

/* Reads the clock; false: the load has not begun, or its duration is over. */
static __always_inline bool lasts(u64 *now)
{
	*now = clock();
	if (sched.origin && (s64)(*now - sched.origin) < 0)
		return false; /* the other senders of the load are not there yet */
	tick(*now);
	if (!sched.origin)
		sched.origin = *now;
	if (sched.duration && *now - sched.origin >= sched.duration) {
		sched.done = 1;
		return false;
	}
	return true;
}

/* Whether the load goes on. *now stays 0 where the clock need not be read. */
static __always_inline bool under_way(u64 *now)
{
	if (sched.done)
		return false;
	if (sched.count && sched.sent >= sched.count) {
		tick(clock());
		sched.done = 1;
		return false;
	}
	if (paced || gaps || !(sched.sent & CLOCK_MASK))
		return lasts(now);
	return true;
}

/* xorshift64*: as in frame/write.go. */
static __always_inline u32 draw32(u64 *state)
{
	u64 x = *state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * 0x2545f4914f6cdd1dull >> 32;
}

/* Captured ns as time of the schedule. */
static __always_inline u64 scaled(u64 ns)
{
	u64 high = (ns >> 32) * sched.factor, low = (ns & 0xffffffff) * sched.factor;
	u32 down = sched.down & 63;

	return (down <= 32 ? high << (32 - down) : high >> (down - 32)) + (low >> down);
}

/* The next frame was captured so many ns after the pass's first one. */
static __always_inline void due_as(u64 captured)
{
	u64 at = sched.base + scaled(captured);

	if (at == sched.due)
		return;
	sched.gap = (s64)(at - sched.due) > 0 ? at - sched.due : 0;
	sched.due = at;
}

/*
 * Whether the next frame is due. Frames may leave in bursts; one frame is a burst,
 * too. Unless late frames shift it, the schedule never moves: a sender that was
 * held up catches up, and because more frames at once are another load than the
 * one asked for, it does so at 9/8 of the rate, which user space reports. Where a
 * flush takes longer than a gap, what fell due within slip leaves at once.
 */
static __always_inline bool due(u64 now)
{
	u64 at = (now - sched.origin) << 16; /* wraps after 78 h, as the schedule does */
	u64 may = sched.last + (shift ? 0 : sched.gap - sched.gap / 9);
	u64 usual = sched.interval * burst;

	if (burst > 1 && sched.left) {
		sched.left--;
		sched.late += sched.behind;
		sched.asked = pattern == BURSTS ? 0 : sched.interval;
		return true;
	}
	if ((s64)(at - sched.due) < 0 || (s64)(at - may) < 0)
		return false;
	if (pattern == OCTETS || pattern == CAPTURED)
		usual = sched.gap > LATE_FLOOR ? sched.gap : LATE_FLOOR;
	sched.behind = at - sched.due >= usual + slip;
	sched.late += sched.behind;
	sched.asked = pattern == CONSTANT ? sched.interval : sched.gap;
	sched.last = slip && at - may < slip ? may : at - slip;
	sched.left = burst - 1;
	if (pattern == CONSTANT && sched.then && (s64)(sched.due - sched.then_at) >= 0) {
		sched.interval = sched.then;
		sched.then = 0;
		sched.changed = now;
	}
	if (shift) {
		sched.moved += at - sched.due;
		if (pattern == CAPTURED)
			sched.base += at - sched.due;
		sched.due = at;
	}
	if (pattern == CONSTANT || pattern == BURSTS)
		sched.gap = sched.interval * burst;
	else if (pattern == POISSON)
		sched.gap = poisson_gaps[draw32(&sched.chance) >> 20];
	else
		sched.gap = 0; /* due_as and paid say what follows */
	sched.due += sched.gap;
	return true;
}

/* Pattern OCTETS: the frame that leaves has so many octets with FCS. */
static __always_inline void paid(u32 octets)
{
	sched.gap = octets * sched.factor >> (sched.down & 63);
	sched.due += sched.gap;
}

/* A frame leaves. */
static __always_inline void leaves(u64 now)
{
	if (gaps) {
		u64 gap = now - sched.before;
		u64 error = gap << 16 > sched.asked ? (gap << 16) - sched.asked : sched.asked - (gap << 16);
		u32 i = bucket(gap), j = bucket(error >> 16);

		if (sched.sent && i < BUCKETS && j < BUCKETS) {
			gap_counts[i]++;
			gap_errors[j]++;
		}
		sched.before = now;
	}
	sched.sent++;
}
