// SPDX-License-Identifier: Apache-2.0

package report

import (
	"boxdyno/reference"
	"boxdyno/result"
)

// This file names the procedures and metrics that sentences and orders of report speak of.
// Beside the fields of blocks.go, no other file does.

const (
	CaptureProcedure     = "capture"
	connectionsProcedure = "connections"
	cryptoProcedure      = "crypto"
	floodProcedure       = "flood"
	IDSProcedure         = "ids"
	inferProcedure       = "infer"
	replayProcedure      = "replay"
	securityProcedure    = "security"
	soakProcedure        = "soak"
	storageProcedure     = "storage"
	vpnProcedure         = "vpn"
	streamProcedure      = "stream"
)

const (
	SelfTestProcedure = result.SelfTest
	throughput        = "throughput_fps"
	forwardingRate    = "forwarding_rate_fps"
	dropRate          = "drop_rate_fps"
	offeredRate       = "offered_fps"
	ceilingFPS        = "ceiling_fps"
	latencyLoad       = "latency_load_fps"
	idsRate           = "ids_rate_bps"
	uncounted         = "uncounted_ratio"
	stealShare        = "steal_ratio"
	longestStall      = "longest_stall_s"
	LoopBefore        = "loop_before_rps"
	LoopAfter         = "loop_after_rps"
	rulesLoaded       = "rules_loaded"
	detectedShare     = "detected_ratio"
	detectedIdle      = "idle_detected_ratio"
	attacksPlanted    = "attacks_planted"
	offeredBits       = "capture_offered_bps"
	knownAnswer       = "storage_known_answer"
	framesOffered     = "frames_offered"
	framesCounted     = "frames_counted"
	framesLate        = "frames_lag"
	framesLost        = "frames_lost"
	drainTime         = "drain_s"
	controlFrames     = "control_frames"
	processCount      = "subject_processes"
	cpuTime           = "subject_cpu_s"
	cpuShare          = "subject_cpu_share"
	mainShare         = "main_cpu_share"
	memoryPeak        = "subject_memory_bytes"
	mainMemory        = "main_memory_bytes"
	failedCount       = "connections_failed"
	completeRate      = "connections_complete_cps"
	tableRefused      = "conntrack_drop"
	tableFull         = "conntrack_insert_failed"
	tableEntries      = "conntrack_entries"
	tableMost         = "conntrack_most"
	tableEvicted      = "conntrack_early_drop"
	knownBadSent      = "known_bad_sent"
	knownBadArrived   = "known_bad_arrived"
	goodOffered       = "sustain_offered_fps"
	goodForwarded     = "sustain_forwarded_fps"
	goodLoss          = "sustain_loss_ratio"
	losslessRate      = "lossless_fps"
	countingRate      = "counting_overload_fps"
	captureRate       = "capture_offered_fps"
	cpuPerFrame       = "subject_cpu_per_frame_s"
	attacksDetected   = "attacks_detected"
	blindRate         = "blind_bps"
	windowRate        = "windows_per_s"
	windowTime        = "window_s"
	modelTime         = "model_s"
	dropsAdded        = "drops_added_ratio"
	cpuAdded          = "cpu_added_per_frame_s"
	connectionRate    = "connections_cps"
	connectionMost    = "connections_overload_cps"
	attemptRate       = "connections_offered_cps"
	heldCount         = "connections_concurrent"
	openedCount       = "connections_opened"
	benignShare       = "benign_survival_ratio"
	benignLoad        = "benign_offered_bps"
	floodBorne        = "flood_borne_fps"
	floodRate         = "flood_offered_fps"
	floodSent         = "flood_sent"
	floodArrived      = "flood_arrived"
	floodRecovery     = "flood_recovery_s"
	sensorShare       = "sensor_seen_ratio"
	lossRatio         = "loss_ratio"
	lossHighest       = "loss_highest_fps"
	lossFree          = "loss_free_fps"
	backToBack        = "back_to_back_frames"
	recoveryTime      = "recovery_s"
	goodput           = "goodput_bps"
	goodputShare      = "goodput_share"
	encryptRate       = "encrypt_bytes_per_s"
	decryptRate       = "decrypt_bytes_per_s"
	copyCount         = "copies"
)

// Names in published figures.
const (
	tunnelExperiment = "vpn"
	cipherThroughput = "throughput"
)

// cpuList begins a list of CPUs in parameters: "cpu0+2-3".
const cpuList = "cpu"

// publishedWords are metrics of the published captures.
var publishedWords = map[string]string{
	"cpu_percent_mean": "CPU", "rss_peak_max": "memory", "packets_counted_mean": "counted",
	"iperf3_packets": "sent", "iperf3_bytes": "payload sent", "iperf3_rate": "payload offered", "iperf3_duration": "sent for",
}

// studyMetrics are those that the study draws.
var studyMetrics = []studyMetric{
	{"CPU", "%", "cpu_percent_mean", cpuShare, mainShare, 100},
	{"memory", "KB", "rss_peak_max", memoryPeak, mainMemory, 1.0 / 1024},
	{"counted", "packets", "packets_counted_mean", framesCounted, framesCounted, 1},
}

// forwarding are procedures whose frames go through the box.
var forwarding = []string{"forward", "throughput"}

// orderedBy are the rates by which repeats of a point are ordered: the first that it has.
var orderedBy = []string{forwardingRate, dropRate, throughput, connectionRate, completeRate, losslessRate, "counting_rate_fps", floodBorne, benignShare}

// boundedBy are the rates whose bound is the row's: the first that it has.
var boundedBy = []string{throughput, dropRate, connectionRate, losslessRate, idsRate, floodBorne, connectionMost, forwardingRate}

// cipherWords are what ciphers and schemes do, in a sentence.
var cipherWords = []result.Pair{
	{Key: encryptRate, Value: "encrypted"}, {Key: decryptRate, Value: "decrypted"}, {Key: "signs_per_s", Value: "signatures/s made"}, {Key: "verifies_per_s", Value: "verified"},
	{Key: "agreements_per_s", Value: "key agreements/s"}, {Key: "encapsulations_per_s", Value: "encapsulations/s"}, {Key: "decapsulations_per_s", Value: "decapsulations/s"},
}

// handshakeWords are what a scheme is for: the first that it has.
var handshakeWords = []result.Pair{{Key: "signs_per_s", Value: "signs"}, {Key: "agreements_per_s", Value: "agrees on"}, {Key: "encapsulations_per_s", Value: "encapsulates"}}

// ofTester are metrics that tell of the tester and of what disturbed it.
var ofTester = []string{ceilingFPS, offeredRate, "stalls", longestStall, stealShare, LoopBefore, LoopAfter}

// titled are procedures that stand before the frames in their rows' names.
var titled = append([]string{securityProcedure, connectionsProcedure}, suiteProcedures...)

// suiteProcedures are RFC 2544's, in its order.
var suiteProcedures = []string{"throughput", "latency", "loss-curve", "back-to-back", "recovery"}

// powerNames are what procedures of work are called among a box's powers.
var powerNames = map[string]string{"cpu": "Computing", "hash": "Hashing", "memory": "Memory", "codec": "Encoding", "hpl": "Linpack"}

// workTables has a row for each such procedure.
var workTables = []workTable{
	{
		procedure: "cpu", title: "Computing, on this machine's CPUs", keys: []string{"subject", "core_type", "duration", "optimise", "dictionary", "primes", "userland"}, leave: []string{"-", "0", "0s", "O2", "22", "10000", "native"},
		words: map[string]string{
			"dhrystones_per_s": "Dhrystones", "dmips": "DMIPS", "whetstones_per_s": "Whetstone instructions", "compress_ips": "compression", "decompress_ips": "decompression",
			"sysbench_events_per_s": "events", "bogo_ops_rate": "bogo operations",
		},
		published: []publication{{source: "croce-pi4", box: "Pi 4", when: []result.Pair{{Key: "subject", Value: "dhrystone"}}, words: "Dhrystone under 32 and 64 bit"}},
	},
	{
		procedure: "hash", title: "Hashing zeros from memory, on this machine's CPUs", keys: []string{"subject", "algorithm", "core_type", "size", "userland"}, leave: []string{"-", "-", "0", "2000000000", "native"},
		words:     map[string]string{"hash_rate": "hashed"},
		published: []publication{{source: "croce-pi4", experiment: "sha1", metric: "file_size", when: []result.Pair{{Key: "algorithm", Value: "sha1"}}, words: "SHA-1 of %g GB of zeros in a file under 32 and 64 bit"}},
	},
	{
		procedure: "memory", title: "Memory, by this machine's CPUs", keys: []string{"subject", "core_type", "size", "optimise", "userland"}, leave: []string{"-", "0", "0", "O3", "native"},
		words: map[string]string{
			"memory_write_rate": "written", "memory_read_rate": "read", "memory_copy_rate": "copied", "memory_latency_s": "load, largest set", "cache_latency_s": "load, 4 KiB",
			"stream_copy_rate": "STREAM copy", "stream_scale_rate": "STREAM scale", "stream_add_rate": "STREAM add", "stream_triad_rate": "STREAM triad",
		},
		curve: &curveOf{note: "Each load waits for the one before it, over lines in a random order; a step is where a cache is full.", title: "Time of a load that waits for the one before it, against the working set", key: "working_set", of: "working set", ofUnit: "B", metric: "load_latency_s", what: "a load"},
		published: []publication{
			{source: "croce-pi4", experiment: "ram", metric: "buffer", when: []result.Pair{{Key: "subject", Value: "memory-bandwidth"}}, words: "memory under 32 and 64 bit over a locked buffer of %g GB"},
			{source: "croce-pi4", experiment: "ram", metric: "max_mlock_buffer_ok", when: []result.Pair{{Key: "subject", Value: "memory-bandwidth"}}, words: "%g GB could be locked under 64 bit"},
		},
	},
	{
		procedure: "codec", title: "Encoding music from and to memory, on this machine's CPUs", keys: []string{"subject", "core_type", "length", "userland"}, leave: []string{"-", "0", "0s", "native"},
		words: map[string]string{"codec_speed": "times real time", "encode_s": "to encode", "encoded_bytes": "came out"},
		published: []publication{
			{source: "phoronix-2022-pi400", experiment: "audio_encoding", levels: []reference.Level{{Factor: "codec", Value: "flac_encode"}}, metric: "gain_64_over_32", when: []result.Pair{{Key: "subject", Value: "flac"}}, words: "FLAC encodes %g %% faster under 64 than under 32 bit"},
			{source: "phoronix-2022-pi400", experiment: "audio_encoding", levels: []reference.Level{{Factor: "codec", Value: "lame_mp3_encode"}}, metric: "gain_64_over_32", when: []result.Pair{{Key: "subject", Value: "lame"}}, words: "LAME encodes %g %% faster under 64 than under 32 bit"},
		},
	},
	{
		procedure: "hpl", title: "Solving a dense system of linear equations (HPL), on this machine's CPUs", keys: []string{"blas", "order", "block", "grid", "core_type"}, leave: []string{"-", "0", "128", "auto", "0"},
		words: map[string]string{"hpl_rate": "HPL"},
		// Sums over the nodes of a cluster are not comparable.
		published: []publication{{
			source: "hawthorne2020", experiment: "text_hpl", metric: "gflops", levels: []reference.Level{{Factor: "nodes", Value: "1"}},
			words: "%g Gflop/s by one node, with an N, an NB and a BLAS of its own", ours: "hpl_rate", factor: 1e9,
		}},
	},
}
