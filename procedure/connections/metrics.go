// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
)

var connectionMetrics = []result.Metric{
	{Name: "connections_cps", Label: "found", Group: "New TCP connections: without a failed one; complete under overload; the tester's ceiling", Interval: "interval", Heads: true, Of: "connections_ceiling_cps", Unit: "1/s", Better: 1, Help: "highest rate of new connections without a failure, confirmed by a longer trial (RFC 9411 section 7.2); interval up to the rate from which every trial had failures"},
	{Name: "connections_overload_cps", Label: "complete", Heads: true, Unit: "1/s", Better: 1, Help: "most connections a second that were complete, whatever failed: at the rate of the ceiling, and half of it as often as most fail"},
	{Name: "connections_ceiling_cps", Label: "ceiling", Unit: "1/s", Better: 1, Help: "connections a second that the tester makes with itself, port to port"},
	{Name: "connections_complete_cps", Unit: "1/s", Better: 1, Help: "connections that were complete, from the first SYN to the last one's end; mode concurrent: whose response was whole"},
	{Name: "connections_offered_cps", Label: "offered", Group: "Connections in the trial at that rate, or at the one given: failed ones, times, goodput", Unit: "1/s", Help: "SYNs a second, as measured"},
	{Name: "connections_concurrent", Label: "held", Group: "Connections in the trial at that rate, or at the one given: failed ones, times, goodput", Heads: true, Unit: "1", Better: 1, Help: "mode concurrent: connections open at once, response whole, when the last one had been opened"},
	{Name: "handshake_p50_s", Label: "handshake", Group: "Connections in the trial at that rate, or at the one given: failed ones, times, goodput", Unit: "s", Better: -1, Help: "SYN to SYN-ACK at the client: median"},
	{Name: "handshake_p99_s", Label: "handshake p99", Unit: "s", Better: -1, Help: "the same, 99th percentile"},
	{Name: "ttfb_p50_s", Label: "1st octet", Unit: "s", Better: -1, Help: "time to first byte, SYN to the response's first octet (RFC 9411): median"},
	{Name: "ttfb_p99_s", Label: "1st octet p99", Unit: "s", Better: -1, Help: "the same, 99th percentile"},
	{Name: "ttfb_max_s", Unit: "s", Better: -1, Help: "the same, greatest"},
	{Name: "goodput_bps", Label: "goodput bit/s", Heads: true, Unit: "bit/s", Better: 1, Help: "octets of responses that came in order, HTTP header included, from the first SYN to the last response"},
	{Name: "connections_opened", Label: "opened", Group: "Connections in the trial at that rate, or at the one given: failed ones, times, goodput", Unit: "1", Help: "SYNs made: closed + failed + open + unexplained"},
	{Name: "connections_closed", Unit: "1", Help: "complete and closed"},
	{Name: "connections_failed", Label: "failed", Group: "Connections in the trial at that rate, or at the one given: failed ones, times, goodput", Unit: "1", Better: -1, Help: "all that follow, up to reset"},
	{Name: "failed_no_syn_ack", Unit: "1", Better: -1, Help: "no SYN-ACK came"},
	{Name: "failed_no_first_byte", Unit: "1", Better: -1, Help: "no octet of the response came"},
	{Name: "failed_incomplete", Unit: "1", Better: -1, Help: "a part of the response came, or the server closed before it was whole"},
	{Name: "failed_unclosed", Unit: "1", Better: -1, Help: "the response came; the end of the connection was not acknowledged"},
	{Name: "failed_reset", Unit: "1", Better: -1, Help: "ended by RST"},
	{Name: "connections_open", Unit: "1", Help: "still open at the end"},
	{Name: "connections_unexplained", Unit: "1", Help: "opened, and in none of these states"},
	{Name: "syns_at_server", Unit: "1", Help: "SYNs that came to the server"},
	{Name: "stray_segments", Unit: "1", Better: -1, Help: "segments at either end that belong to no connection, or not to its state"},
	{Name: "conntrack_entries", Label: "entries", Group: "Connections in the trial at that rate, or at the one given: failed ones, times, goodput", Unit: "1", Help: "entries in the box's connection table when the last connection had been opened; where it tells"},
	{Name: "conntrack_most", Label: "most", Unit: "1", Help: "entries that the table takes (nf_conntrack_max)"},
	{Name: "conntrack_insert_failed", Unit: "1", Better: -1, Help: "connections that found no place in the table (insert_failed)"},
	{Name: "conntrack_drop", Unit: "1", Better: -1, Help: "packets that connection tracking refused: table full, or insert failed (drop)"},
	{Name: "conntrack_early_drop", Unit: "1", Better: -1, Help: "entries evicted to make room for others (early_drop)"},
	{Name: "conntrack_invalid", Unit: "1", Better: -1, Help: "packets that fit no connection (invalid)"},
}

// figures are the metrics of this room's procedure.
var figures = metrics.List(connectionMetrics)

var connectionJoules = trial.OfSubject("connection", func(trial result.Record) float64 { return float64(trial.Load.Forwarded) })
