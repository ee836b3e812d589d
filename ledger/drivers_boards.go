// SPDX-License-Identifier: Apache-2.0

package ledger

import "boxdyno/result"

// Words that mean the same at every driver.
const (
	ringFull  = "no room in the receive ring"    // no descriptor or buffer from the host
	fifoFull  = "no room in the receive FIFO"    // on the chip
	noMemory  = "no memory for a receive buffer" // of the host, when the driver asked
	damaged   = "damaged on the link"            // FCS
	wrongSize = "too short or too long for the port"

	sumOf = "a sum"
)

// boards are the drivers of ports that are built into small boards. rx_dropped of ip -s
// is never only the driver's: the kernel adds frames that it dropped before a protocol
// saw them (net/core/dev.c, dev_get_stats), which ethtool -S does not have.
// Sums count again what their parts count.
var boards = []driver{
	{
		name:   "macb", // Raspberry Pi 5 (RP1), Zynq, SAMA5, SiFive
		source: "drivers/net/ethernet/cadence/macb.h: gem_statistics; macb_main.c: gem_update_stats, gem_get_stats, gem_rx, macb_interrupt; widths: GMAC_RRE and GMAC_ROE of the same core in the data sheet of Microchip SAM E70",
		note: "The chip's counters are set to 0 by reading and stop at their end; the driver adds what it reads, in 64 bit for ethtool -S, in 32 bit for ip -s. " +
			"A full ring is in the columns errors and overrun of ip -s, not in dropped or missed. What ip -s has in dropped and ethtool -S has nowhere is the kernel's own.",
		meanings: []meaning{
			{dir: receives, counter: "ethtool rx_resource_errors", name: ringFull, limit: "the chip's counter has 18 bit and stops at 262,143 between two reads"},
			{dir: receives, counter: "ethtool rx_overruns", name: fifoFull, limit: "the chip's counter has 10 bit and stops at 1,023 between two reads"},
			{dir: receives, counter: "ethtool q*_rx_dropped", name: "broken descriptor"},
		},
		unread: []unread{
			{"rx_over_errors", "ethtool rx_resource_errors", "the same, in 32 bit"},
			{"rx_fifo_errors", "ethtool rx_overruns", "the same and one for every interrupt that told of it: more than were lost"},
			{"rx_missed_errors", "ethtool rx_resource_errors", "the driver never sets it"},
			{"rx_errors", "ethtool rx_resource_errors, ethtool rx_overruns, rx_crc_errors", sumOf},
			{"ethtool rx_frame_check_sequence_errors", "rx_crc_errors", "the same"},
			{"ethtool rx_udp_checksum_errors", "", "the frame is thrown away where the chip checks sums, and passed on where it does not"},
			{"ethtool rx_tcp_checksum_errors", "", "the frame is thrown away where the chip checks sums, and passed on where it does not"},
			{"ethtool rx_ip_header_checksum_errors", "", "the frame is thrown away where the chip checks sums, and passed on where it does not"},
		},
	},
	{
		name:   "bcmgenet", // Raspberry Pi 4
		source: "drivers/net/ethernet/broadcom/genet/bcmgenet.c: bcmgenet_gstrings_stats, bcmgenet_desc_rx, bcmgenet_get_stats64, bcmgenet_update_stat_misc",
		note: "missed of ip -s is the same number as errors: it sums lost, damaged and badly sized frames. " +
			"Discards for want of a descriptor are counted in 16 bit by the ring and added up when it is polled.",
		meanings: []meaning{
			{dir: receives, counter: "ethtool rxq*_errors", name: ringFull, limit: "the ring's counter has 16 bit between two polls"},
			{dir: receives, counter: "ethtool rxq*_dropped", name: noMemory},
			{dir: receives, counter: "ethtool rbuf_ovflow_cnt", name: fifoFull, bits: 32},
			{dir: receives, counter: "rx_length_errors", name: wrongSize},
			{dir: receives, counter: "ethtool mdf_err_cnt", name: "MAC address of another host", bits: 32},
		},
		unread: []unread{
			{"rx_missed_errors", "ethtool rxq*_errors, rx_crc_errors, rx_length_errors", sumOf},
			{"rx_errors", "ethtool rxq*_errors, rx_crc_errors, rx_length_errors", sumOf},
			{"ethtool rx_errors", "ethtool rxq*_errors, rx_crc_errors, rx_length_errors", sumOf},
			{"ethtool rx_dropped", "", "the same as rx_dropped of ip -s"},
			{"rx_over_errors", "ethtool rbuf_ovflow_cnt", "frames that overflowed and came all the same, cut off"},
			{"ethtool rbuf_err_cnt", "ethtool rbuf_ovflow_cnt, rx_crc_errors", "every bad frame that the receive buffer saw"},
			{"ethtool rx_fcs", "rx_crc_errors", "the same, counted by the MAC"},
			{"ethtool rx_crc", "rx_crc_errors", "the same, counted by the MAC"},
			{"ethtool alloc_rx_buff_failed", "ethtool rxq*_dropped", "the same"},
		},
	},
	{
		name:   "lan78xx", // Raspberry Pi 3B+
		source: "drivers/net/usb/lan78xx.c: lan78xx_gstrings, lan78xx_update_stats, lan78xx_check_stat_rollover, rx_complete, lan78xx_skb_return",
		note: "The chip's counters have 20 bit; the driver notices that one has begun anew when it reads them, which it does 1 s to 50 s apart. " +
			"ip -s has none of them: its errors are whole USB transfers.",
		meanings: []meaning{
			{dir: receives, counter: "ethtool RX Dropped Frames", name: fifoFull, limit: "more than 1,048,575 between two reads of the driver are not seen"},
			{dir: receives, counter: "ethtool RX FCS Errors", place: result.Link, name: damaged},
			{dir: receives, counter: "ethtool RX Oversize Frame Errors", name: wrongSize},
		},
		unread: []unread{
			{"rx_errors", "", "USB transfers that failed: one carries many frames"},
			{"rx_length_errors", "", "USB transfers that were too short"},
			{"rx_over_errors", "", "USB transfers that were too long: one carries many frames"},
		},
	},
	{
		name:   "smsc95xx", // Raspberry Pi 1, 2, 3B
		source: "drivers/net/usb/smsc95xx.c: smsc95xx_rx_fixup, smsc95xx_ethtool_ops; usbnet.c: rx_complete, rx_process, usbnet_skb_return",
		note: "There are no statistics for ethtool -S. Frames for which the chip's FIFO had no room are in no counter: they stay unexplained. " +
			"dropped and errors of ip -s count the same damaged frames.",
		unread: []unread{
			{"rx_errors", "", "damaged frames (rx_crc_errors has those with a bad FCS) and USB transfers that failed: one carries many frames"},
			{"rx_over_errors", "", "USB transfers that were too long: one carries many frames"},
		},
	},
	{
		name:   "r8169", // RTL8111, RTL8125: most mini PCs
		source: "drivers/net/ethernet/realtek/r8169_main.c: rtl8169_gstrings, rtl8169_counters, rtl8169_get_ethtool_stats, rtl8169_get_stats64, rtl_rx",
		note:   "missed of ip -s is the same counter, less what it was when the port was opened.",
		meanings: []meaning{
			{dir: receives, counter: "ethtool rx_missed", name: fifoFull, bits: 16, limit: "the chip's counter has 16 bit: of more than 65,535 in a trial only the rest is seen"},
		},
		unread: []unread{
			{"rx_missed_errors", "ethtool rx_missed", "the same, and in 64 bit wrong once it passed its 16"},
			{"rx_errors", "rx_crc_errors", sumOf},
			{"ethtool rx_errors", "", "FCS, alignment and size; rx_crc_errors counts those of them that the chip hands over"},
		},
	},
	{
		name:   "st_gmac st_xgmac", // stmmac: Rockchip, Allwinner, Amlogic, StarFive, Intel Elkhart Lake
		source: "drivers/net/ethernet/stmicro/stmmac/stmmac_ethtool.c: stmmac_mmc, stmmac_gstrings_stats, stmmac_get_ethtool_stats; mmc_core.c: dwmac_mmc_read, dwxgmac_mmc_read; stmmac_main.c: stmmac_get_stats64, stmmac_rx; dwmac4_descs.c, enh_desc.c",
		note: "The MMC counters, where the chip has them, are set to 0 by reading (MMC_CNTRL_RESET_ON_READ) and added up in 32 bit by ethtool -S alone. " +
			"Without descriptors the DMA stops and the FIFO fills: both end in mmc_rx_fifo_overflow. ip -s has neither.",
		meanings: []meaning{
			{dir: receives, counter: "ethtool mmc_rx_fifo_overflow", name: fifoFull, bits: 32},
			{dir: receives, counter: "ethtool mmc_rx_crc_error", place: result.Link, name: damaged, bits: 32},
			{dir: receives, counter: "rx_crc_errors", place: result.Link, name: damaged, lacking: "ethtool mmc_rx_crc_error"},
		},
		unread: []unread{
			{"rx_missed_errors", "ethtool mmc_rx_fifo_overflow", "set by the oldest chips (st_mac100) alone"},
			{"rx_over_errors", "ethtool mmc_rx_fifo_overflow", "set by the oldest chips (st_mac100) alone"},
			{"ethtool rx_crc_errors", "ethtool mmc_rx_crc_error", "the same, where the chip hands them over"},
			{"ethtool rx_gmac_overflow", "ethtool mmc_rx_fifo_overflow", "frames that overflowed and came all the same, cut off"},
			{"ethtool overflow_error", "ethtool mmc_rx_fifo_overflow", "frames that overflowed and came all the same, cut off"},
			{"ethtool rx_overflow_irq", "ethtool mmc_rx_fifo_overflow", "interrupts, not frames"},
			{"rx_errors", "", "descriptors of damaged, badly sized and filtered frames"},
		},
	},
	{
		name:   "st_mac100", // stmmac's oldest
		source: "drivers/net/ethernet/stmicro/stmmac/dwmac100_dma.c: dwmac100_dma_diagnostic_fr; stmmac_main.c: stmmac_get_stats64; stmmac_ethtool.c: stmmac_get_ethtool_stats",
		note:   "The chip's counters are set to 0 by reading; only ethtool -S reads them, and ip -s repeats what it found.",
		meanings: []meaning{
			{dir: receives, counter: "ethtool rx_missed_cntr", name: ringFull, limit: "the chip's counter has 16 bit and stops at 65,535 between two reads"},
			{dir: receives, counter: "ethtool rx_overflow_cntr", name: fifoFull, limit: "the chip's counter has 11 bit and stops at 2,048 between two reads"},
		},
		unread: []unread{
			{"rx_missed_errors", "ethtool rx_missed_cntr", "the same, as ethtool -S read it last"},
			{"rx_over_errors", "ethtool rx_overflow_cntr", "the same, as ethtool -S read it last"},
			{"ethtool rx_crc_errors", "rx_crc_errors", "the same"},
		},
	},
	{
		name:   "mvneta", // Marvell Armada: Turris Omnia, ESPRESSObin
		source: "drivers/net/ethernet/marvell/mvneta.c: mvneta_statistics, mvneta_ethtool_update_stats, mvneta_get_stats64, mvneta_rx_error, mvneta_rx_swbm",
		note: "The chip's counters have 32 bit and are set to 0 by reading; ethtool -S alone reads them and adds them up in 64 bit. " +
			"ip -s knows nothing of frames for which there was no room.",
		meanings: []meaning{
			{dir: receives, counter: "ethtool rx_discard", name: ringFull},
			{dir: receives, counter: "ethtool rx_overrun", name: fifoFull},
			{dir: receives, counter: "ethtool bad_crc_event", place: result.Link, name: damaged},
			{dir: receives, counter: "ethtool skb_alloc_errors", name: noMemory},
			{dir: receives, at: result.DUTNIC, counter: "ethtool rx_xdp_drop", place: result.XDP, name: "XDP drop"},
			{dir: receives, at: result.DUTNIC, counter: "ethtool rx_xdp_tx", place: result.XDP, name: "sent back by XDP"},
			{dir: receives, at: result.DUTNIC, counter: "ethtool rx_xdp_redirect", place: result.XDP, name: "redirected by XDP", passed: true},
		},
		unread: []unread{
			{"rx_errors", "", "descriptors with an error: damaged, too long, overrun, no buffer; the chip's own counters may have counted them"},
			{"ethtool bad_frames_received", "ethtool bad_crc_event", sumOf},
			{"ethtool refill_errors", "", "buffers that could not be replaced; a frame is lost for it in one of two modes of the driver"},
		},
	},
}
