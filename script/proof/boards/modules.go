// SPDX-License-Identifier: Apache-2.0

package main

// What boards load, for there is no modprobe in them: a kernel that wants a module of
// itself finds none. What these need comes before them; what is built in is left out.
var (
	virtio = []string{"virtio_pci", "virtio_console", "virtio_net", "e1000e"}

	network = []string{
		"veth", "tun", "crc32c_generic", "nf_tables", "nf_conntrack", "nf_conntrack_netlink", "nf_nat",
		"sch_ingress", "sch_tbf", "cls_bpf",
	}

	// ciphers are those of AF_ALG and of dm-crypt, in plain C, with what the kernel looks
	// for by name (nhpoly1305 for Adiantum, say): a board's own drivers
	// stand in its row.
	ciphers = []string{
		"af_alg", "algif_skcipher", "algif_hash", "algif_aead", "algif_rng",
		"cbc", "ctr", "ecb", "xts", "essiv", "gcm", "ccm", "cmac", "authenc",
		"aes_generic", "twofish_generic", "serpent_generic", "camellia_generic", "chacha_generic", "chacha20poly1305", "poly1305_generic", "adiantum", "nhpoly1305", "ghash_generic",
		"sha1_generic", "sha256_generic", "sha512_generic",
	}

	// tunnels: WireGuard, and IPsec as "ip xfrm" sets it up.
	tunnels = []string{"wireguard", "esp4", "esp6", "xfrm_user", "xfrm_interface", "echainiv", "seqiv", "authencesn", "crypto_null", "hmac", "drbg"}

	blocks = []string{"loop", "zram", "dm_mod", "dm_crypt"}

	// adapters: an I2C bus on USB/IP, and what sits on it.
	adapters = []string{"vhci_hcd", "i2c_tiny_usb", "lm75", "ina2xx_adc"}
)
