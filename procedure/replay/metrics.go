// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"

	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
)

const (
	whatBecame = "Replay: what became of the capture's frames"
	howFast    = "Replay: rates of the trial"
)

var ownMetrics = []result.Metric{
	{Name: "replay_sent_frames", Label: "sent", Group: whatBecame, Heads: true, Unit: "frame", Help: "frames that the tester's port took: received + altered + missing"},
	{Name: "replay_received_frames", Label: "received", Group: whatBecame, Unit: "frame", Better: 1, Help: "frames that came behind the box as they were sent, each once"},
	{Name: "replay_missing_frames", Label: "missing", Group: whatBecame, Heads: true, Unit: "frame", Better: -1, Help: "frames that did not come: lost"},
	{Name: "replay_altered_frames", Label: "altered", Group: whatBecame, Heads: true, Unit: "frame", Better: -1, Help: "frames in whose place one came that shares its addresses and identification, or else its payload, and differs in the rest"},
	{Name: "replay_duplicated_frames", Label: "twice", Group: whatBecame, Unit: "frame", Better: -1, Help: "frames that came more often than they were sent"},
	{Name: "replay_foreign_frames", Label: "foreign", Group: whatBecame, Unit: "frame", Help: "frames that came and are none of the capture's, not even altered ones"},
	{Name: "replay_loss_ratio", Label: "lost", Group: whatBecame, Share: true, Unit: "1", Better: -1, Help: "missing frames as a share of those sent"},
	{Name: "replay_offered_fps", Label: "offered", Group: howFast, Heads: true, Unit: "frame/s", Help: "what the tester was measured to send"},
	{Name: "replay_forwarded_fps", Label: "forwarded", Group: howFast, Heads: true, Of: "ceiling_fps", Unit: "frame/s", Better: 1, Help: "frames of the capture that came, altered ones too, from the first frame sent to the last sent or received"},
	{Name: "replay_forwarded_bps", Label: "bit/s", Group: howFast, Unit: "bit/s", Better: 1, Help: "the same in layer-2 bits, FCS included, by the mean frame sent"},
}

var metricsOfReplay = slices.Concat(ownMetrics, []result.Metric{trial.Ceiling(howFast)}, metrics.List(trial.ForwardMetrics).Pick("throughput_fps", "throughput_bps", "offered_fps", "forwarding_rate_fps"))

// figures are the metrics of this room's procedure.
var figures = metrics.List(metricsOfReplay)
