// SPDX-License-Identifier: Apache-2.0

package ledger

import "boxdyno/result"

// nics are the drivers of cards and of virtual machines.
var nics = []driver{
	{
		name:   "e1000",
		source: "drivers/net/ethernet/intel/e1000/e1000_main.c: e1000_update_stats; e1000_ethtool.c: e1000_gstrings_stats, e1000_get_ethtool_stats",
		note:   "The chip's counters are set to 0 by reading and added up. ip -s is brought up to date by the watchdog, every 2 s; ethtool -S at once.",
		meanings: []meaning{
			{dir: receives, counter: "ethtool rx_missed_errors", name: fifoFull},
			{dir: receives, counter: "ethtool rx_crc_errors", place: result.Link, name: damaged},
		},
		unread: []unread{
			{"rx_missed_errors", "ethtool rx_missed_errors", "the same, up to 2 s late"},
			{"rx_crc_errors", "ethtool rx_crc_errors", "the same, up to 2 s late"},
			{"rx_errors", "ethtool rx_crc_errors", sumOf},
			{"ethtool rx_errors", "ethtool rx_crc_errors", sumOf},
			{"ethtool rx_no_buffer_count", "ethtool rx_missed_errors", "frames that found no descriptor and waited in the FIFO: those that did not fit are missed"},
		},
	},
	{
		name:   "e1000e",
		source: "drivers/net/ethernet/intel/e1000e/netdev.c: e1000e_update_stats, e1000e_get_stats64; ethtool.c: e1000_gstrings_stats, e1000_get_ethtool_stats",
		note: "The chip's counters are set to 0 by reading and added up, by ip -s and ethtool -S alike. received and sent are the chip's own count, " +
			"not the driver's.",
		meanings: []meaning{
			{dir: receives, counter: "rx_missed_errors", name: fifoFull},
			{dir: receives, counter: "rx_length_errors", name: wrongSize},
		},
		unread: []unread{
			{"ethtool rx_missed_errors", "rx_missed_errors", "the same"},
			{"ethtool rx_crc_errors", "rx_crc_errors", "the same"},
			{"ethtool rx_length_errors", "rx_length_errors", "the same"},
			{"ethtool rx_long_length_errors", "rx_length_errors", "a part of it"},
			{"ethtool rx_short_length_errors", "rx_length_errors", "a part of it"},
			{"ethtool rx_no_buffer_count", "rx_missed_errors", "frames that found no descriptor and waited in the FIFO: those that did not fit are missed"},
			{"rx_errors", "rx_crc_errors, rx_length_errors", sumOf},
			{"ethtool rx_errors", "rx_crc_errors, rx_length_errors", sumOf},
			{"ethtool alloc_rx_buff_failed", "rx_missed_errors", "buffers that were asked for again later; no frame"},
		},
	},
	queued1G("igb", "drivers/net/ethernet/intel/igb/igb_main.c: igb_update_stats; igb_ethtool.c: igb_gstrings_stats, igb_gstrings_net_stats, igb_get_ethtool_stats"),
	queued1G("igc", "drivers/net/ethernet/intel/igc/igc_main.c: igc_update_stats; igc_ethtool.c: igc_gstrings_stats, igc_gstrings_net_stats, igc_ethtool_get_stats"),
	{
		name:   "ixgbe",
		source: "drivers/net/ethernet/intel/ixgbe/ixgbe_main.c: ixgbe_update_stats, ixgbe_get_stats64; ixgbe_ethtool.c: ixgbe_gstrings_stats, ixgbe_get_ethtool_stats",
		note: "The chip's counters are set to 0 by reading and added up. ip -s is brought up to date by the watchdog, every 2 s; ethtool -S at once. " +
			"A queue drops for want of descriptors (rx_no_dma_resources) where it may (more than one queue and no pause), else the FIFO fills (rx_missed_errors).",
		meanings: []meaning{
			{dir: receives, counter: "ethtool rx_missed_errors", name: fifoFull},
			{dir: receives, counter: "ethtool rx_no_dma_resources", name: ringFull},
			{dir: receives, counter: "ethtool rx_crc_errors", place: result.Link, name: damaged},
			{dir: receives, counter: "ethtool rx_length_errors", name: wrongSize},
		},
		unread: []unread{
			{"rx_missed_errors", "ethtool rx_missed_errors", "the same, up to 2 s late"},
			{"rx_crc_errors", "ethtool rx_crc_errors", "the same, up to 2 s late"},
			{"rx_length_errors", "ethtool rx_length_errors", "the same, up to 2 s late"},
			{"rx_errors", "ethtool rx_crc_errors, ethtool rx_length_errors", sumOf},
			{"ethtool rx_errors", "ethtool rx_crc_errors, ethtool rx_length_errors", sumOf},
			{"ethtool rx_dropped", "", "the same as rx_dropped of ip -s"},
			{"ethtool rx_long_length_errors", "", "rx_length_errors may count them too"},
			{"ethtool rx_short_length_errors", "", "rx_length_errors may count them too"},
			{"ethtool rx_no_buffer_count", "ethtool rx_missed_errors", "frames that found no descriptor and waited in the FIFO: those that did not fit are missed"},
			{"ethtool alloc_rx_buff_failed", "ethtool rx_no_dma_resources", "buffers that were asked for again later; no frame"},
			{"ethtool alloc_rx_page_failed", "ethtool rx_no_dma_resources", "buffers that were asked for again later; no frame"},
			{"ethtool fdir_miss", "", "frames for which no flow rule was found; no loss"},
			{"ethtool rx_csum_offload_errors", "", "frames whose sum the stack checks again; no loss by itself"},
		},
	},
	{
		name:   "i40e",
		source: "drivers/net/ethernet/intel/i40e/i40e_main.c: i40e_stats_update_rx_discards, i40e_update_vsi_stats, i40e_update_pf_stats, i40e_get_netdev_stats_struct; i40e_ethtool.c: i40e_gstrings_net_stats, i40e_gstrings_stats, i40e_get_ethtool_stats",
		note: "ip -s is brought up to date once a second; ethtool -S at once. Old kernels count in ethtool's rx_dropped what new ones count in its rx_missed_errors. " +
			"Of ethtool -S rx_dropped is the card's alone, without what the kernel adds for ip -s.",
		meanings: []meaning{
			{dir: receives, counter: "ethtool rx_missed_errors", name: ringFull},
			{dir: receives, counter: "ethtool rx_dropped", name: "discarded by the card"},
			{dir: receives, counter: "ethtool port.rx_discards", name: fifoFull},
			{dir: receives, counter: "ethtool port.rx_crc_errors", place: result.Link, name: damaged},
		},
		unread: []unread{
			{"rx_missed_errors", "ethtool rx_missed_errors", "the same, up to 1 s late"},
			{"rx_crc_errors", "ethtool port.rx_crc_errors", "the same, up to 1 s late"},
			{"ethtool rx_crc_errors", "ethtool port.rx_crc_errors", "the same"},
			{"rx_errors", "ethtool port.rx_crc_errors", sumOf},
			{"ethtool rx_errors", "ethtool port.rx_crc_errors", sumOf},
			{"ethtool rx_alloc_fail", "ethtool rx_missed_errors", "buffers that were asked for again later; no frame"},
			{"ethtool rx_pg_alloc_fail", "ethtool rx_missed_errors", "buffers that were asked for again later; no frame"},
		},
	},
	{
		name:   "mlx5_core",
		source: "drivers/net/ethernet/mellanox/mlx5/core/en_stats.c: q_stats_desc, vnic_env_stats_*_desc, pport_2863_stats_desc, sw_stats_desc; en_main.c: mlx5e_get_stats, mlx5e_update_stats_work; Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst",
		note:   "ip -s shows what was read before it was asked (mlx5e_queue_update_stats); ethtool -S asks the card at once. Counters *_phy are of the whole port, all functions of the card together.",
		meanings: []meaning{
			{dir: receives, counter: "ethtool rx_out_of_buffer", name: ringFull, bits: 32},
			{dir: receives, counter: "ethtool rx_discards_phy", name: fifoFull},
			{dir: receives, counter: "ethtool rx_steer_missed_packets", name: "no flow of the card takes it"},
			{dir: receives, counter: "ethtool rx_oversize_pkts_buffer", name: wrongSize},
			{dir: receives, counter: "ethtool rx_oversize_pkts_sw_drop", name: wrongSize},
			{dir: receives, counter: "ethtool rx_crc_errors_phy", place: result.Link, name: damaged},
			{dir: receives, at: result.DUTNIC, counter: "ethtool rx_xdp_drop", place: result.XDP, name: "XDP drop"},
			{dir: receives, at: result.DUTNIC, counter: "ethtool rx_xdp_redirect", place: result.XDP, name: "redirected by XDP", passed: true},
		},
		unread: []unread{
			{"rx_missed_errors", "ethtool rx_out_of_buffer", "the same, as it was read before"},
			{"rx_crc_errors", "ethtool rx_crc_errors_phy", "the same, as it was read before"},
			{"rx_length_errors", "ethtool rx_oversize_pkts_buffer", sumOf},
			{"rx_errors", "ethtool rx_crc_errors_phy, ethtool rx_oversize_pkts_buffer", sumOf},
			{"ethtool rx*_oversize_pkts_sw_drop", "ethtool rx_oversize_pkts_sw_drop", "a queue's part of it"},
			{"ethtool rx*_xdp_drop", "ethtool rx_xdp_drop", "a queue's part of it"},
			{"ethtool rx_buff_alloc_err", "ethtool rx_out_of_buffer", "buffers that were asked for again later; no frame"},
			{"ethtool rx*_buff_alloc_err", "ethtool rx_out_of_buffer", "a queue's part of it"},
		},
	},
	{
		name:   "virtio_net",
		source: "drivers/net/virtio_net.c: virtnet_rq_stats_desc, virtnet_get_strings, virtnet_stats, receive_buf, receive_small_xdp, receive_mergeable",
		note: "A frame for which the ring had no room never reaches the machine: its host counts it (tx_dropped of the tap, or vhost). " +
			"Older kernels name queues rx_queue_0_drops, newer ones rx0_drops.",
		meanings: []meaning{
			{dir: receives, counter: "ethtool rx*_drops", name: "receive failed in the driver, or XDP drop"},
			{dir: receives, counter: "ethtool rx_queue_*_drops", name: "receive failed in the driver, or XDP drop"},
			{dir: receives, at: result.DUTNIC, counter: "ethtool rx*_xdp_redirects", place: result.XDP, name: "redirected by XDP", passed: true},
			{dir: receives, at: result.DUTNIC, counter: "ethtool rx_queue_*_xdp_redirects", place: result.XDP, name: "redirected by XDP", passed: true},
		},
		unread: []unread{
			{"rx_missed_errors", "ethtool rx*_drops", "the driver never sets it"},
			{"ethtool rx*_xdp_drops", "ethtool rx*_drops", "a part of it"},
			{"ethtool rx_queue_*_xdp_drops", "ethtool rx_queue_*_drops", "a part of it"},
			{"rx_length_errors", "ethtool rx*_drops", "a part of it"},
			{"rx_frame_errors", "", "frames with a header of virtio that makes no sense"},
		},
	},
}

// queued1G is igb and its successor igc, which count alike: a chip-wide FIFO, and
// queues that drop where they may.
func queued1G(name, source string) driver {
	return driver{
		name: name, source: source,
		note: "The chip's counters are set to 0 by reading and added up, by ip -s and ethtool -S alike. A queue drops for want of descriptors (rx_queue_N_drops) " +
			"where it may (more than one queue and no pause), else the FIFO fills (missed).",
		meanings: []meaning{
			{dir: receives, counter: "rx_missed_errors", name: fifoFull},
			{dir: receives, counter: "ethtool rx_queue_*_drops", name: ringFull},
			{dir: receives, counter: "rx_length_errors", name: wrongSize},
		},
		unread: []unread{
			{"rx_fifo_errors", "rx_missed_errors, ethtool rx_queue_*_drops", sumOf},
			{"ethtool rx_fifo_errors", "rx_missed_errors, ethtool rx_queue_*_drops", sumOf},
			{"ethtool rx_missed_errors", "rx_missed_errors", "the same"},
			{"ethtool rx_crc_errors", "rx_crc_errors", "the same"},
			{"ethtool rx_length_errors", "rx_length_errors", "the same"},
			{"ethtool rx_long_length_errors", "rx_length_errors", "a part of it"},
			{"ethtool rx_short_length_errors", "rx_length_errors", "a part of it"},
			{"ethtool rx_no_buffer_count", "rx_missed_errors, ethtool rx_queue_*_drops", "frames that found no descriptor on arrival: lost ones are in the others"},
			{"ethtool rx_queue_*_alloc_failed", "ethtool rx_queue_*_drops", "buffers that were asked for again later; no frame"},
			{"rx_errors", "rx_crc_errors, rx_length_errors", sumOf},
			{"ethtool rx_errors", "rx_crc_errors, rx_length_errors", sumOf},
			{"ethtool dropped_smbus", "", "frames for the management controller"},
			{"ethtool rx_queue_*_csum_err", "", "frames whose sum the stack checks again; no loss by itself"},
		},
	}
}
