// SPDX-License-Identifier: Apache-2.0

package ids

// RulesCalibration names the statistics that generated rules follow. It changes with
// them: figures of different calibrations must not be compared.
const RulesCalibration = "2026-11"

// A ruleShape is a kind of rule: what it inspects, and how often a real set has it.
// The numbers are those of 17,990 rules of a public set of 2020, as Suricata 7 groups them
// (suricata --engine-analysis); no rule of that set is here. Shares of rules without a fast
// pattern and the tokens are fitted to what each group costs Suricata a frame.
type ruleShape struct {
	share   int    // of 10,000 rules
	proto   string // of the rule's head
	head    string // addresses and ports
	flow    string // the flow keyword; empty: none
	buffer  string // sticky buffer of the fast pattern; empty: the payload
	size    [5]int // octets of the fast pattern: least, quartiles, 99th percentile
	nocase  int    // of 100 fast patterns
	pcre    int    // of 100 rules
	bits    int    // of 100 rules, with flowbits
	more    int    // further contents in 100 rules
	offset  bool   // the fast pattern has a depth, so that it is sought in packets too
	dsize   bool   // the payload has a length, so that it is sought in packets only
	binary  bool   // patterns are octets, not text
	common  int    // of 10,000 rules, with a fast pattern that ordinary traffic has
	tokens  []string
	without string // what the rule has in place of a fast pattern: an expression of rulePCRE, or keywords
}

const (
	outbound = "$HOME_NET any -> $EXTERNAL_NET any"
	inbound  = "$EXTERNAL_NET any -> $HOME_NET any"
	toWeb    = "$EXTERNAL_NET any -> $HTTP_SERVERS $HTTP_PORTS"
	fromWeb  = "$EXTERNAL_NET $HTTP_PORTS -> $HOME_NET any"
	toServer = "established,to_server"
	toClient = "established,to_client"
)

// Expressions that are sought without a fast pattern, as rulePCRE writes them.
const (
	pcreDigits  = "digits"
	pcreGUIDs   = "guids"
	pcreWords   = "words"
	pcreCommand = "command"
)

var ruleShapes = []ruleShape{
	{share: 3870, proto: "http", head: outbound, flow: toServer, buffer: "http.uri", size: [5]int{4, 11, 15, 22, 58}, nocase: 80, pcre: 72, bits: 2, more: 200, common: 92, tokens: []string{"/", ".", "bin", "/img/", "files/", "store", "1", "er"}},
	{share: 548, proto: "http", head: toWeb, flow: toServer, buffer: "http.uri", size: [5]int{4, 11, 15, 22, 58}, nocase: 80, pcre: 72, bits: 2, more: 200, common: 92, tokens: []string{".", "/", "bin"}},
	{share: 691, proto: "http", head: outbound, flow: toServer, buffer: "http.header", size: [5]int{3, 12, 19, 23, 86}, nocase: 23, pcre: 28, bits: 9, more: 100, common: 200, tokens: []string{"User-Agent|3a 20|", "Accept|3a| */*|0d 0a|", "Host|3a 20|"}},
	{share: 438, proto: "http", head: outbound, flow: toServer, buffer: "http.user_agent", size: [5]int{3, 7, 9, 13, 57}, nocase: 26, pcre: 15, bits: 6, more: 50, common: 280, tokens: []string{"_", "z", "x", "/5.0", "Firefox/"}},
	{share: 326, proto: "http", head: outbound, flow: toServer, buffer: "http.request_body", size: [5]int{2, 7, 10, 15, 49}, nocase: 56, pcre: 22, bits: 16, more: 320, common: 70, tokens: []string{"u|3d|", "id"}},
	{share: 81, proto: "http", head: outbound, flow: toServer, buffer: "http.host", size: [5]int{3, 7, 10, 16, 35}, pcre: 13, bits: 14, more: 120, common: 200, tokens: []string{".ex", "ash"}},
	{share: 62, proto: "http", head: outbound, flow: toServer, buffer: "http.cookie", size: [5]int{4, 6, 12, 19, 24}, nocase: 8, pcre: 15, bits: 4, more: 150},
	{share: 1218, proto: "http", head: inbound, flow: toClient, buffer: "file.data", size: [5]int{2, 11, 19, 31, 110}, nocase: 39, pcre: 24, bits: 19, more: 180, common: 70, tokens: []string{"6f", "|22|f", "MZ", "q|22|"}},
	{share: 30, proto: "http", head: inbound, flow: toClient, buffer: "http.stat_msg", size: [5]int{2, 4, 8, 12, 20}, more: 100, common: 1000, tokens: []string{"OK"}},
	{share: 413, proto: "dns", head: "$HOME_NET any -> any any", buffer: "dns.query", size: [5]int{6, 11, 14, 18, 31}, nocase: 71, pcre: 1},
	{share: 24, proto: "dns", head: "$HOME_NET any -> any any", size: [5]int{5, 9, 13, 16, 30}, more: 100, binary: true, common: 400, tokens: []string{"|00 00 01 00 01|"}},
	{share: 104, proto: "tls", head: outbound, flow: toServer, buffer: "tls.sni", size: [5]int{2, 12, 15, 18, 28}, nocase: 85, pcre: 1, more: 20},
	{share: 49, proto: "tls", head: inbound, flow: toClient, buffer: "tls.cert_subject", size: [5]int{5, 13, 18, 21, 79}, nocase: 39, pcre: 2, more: 40},
	{share: 120, proto: "tls", head: inbound, flow: toClient, size: [5]int{5, 10, 15, 20, 33}, pcre: 5, more: 260, binary: true, common: 60, tokens: []string{"|16 03|"}},
	{share: 266, proto: "http", head: inbound, flow: toClient, size: [5]int{4, 15, 30, 36, 66}, nocase: 73, pcre: 37, bits: 7, more: 130, common: 100, tokens: []string{"|0d 0a|Content-Type|3a 20|", "u0", "application"}},
	{share: 184, proto: "http", head: fromWeb, flow: toClient, size: [5]int{4, 15, 30, 36, 66}, nocase: 73, pcre: 37, bits: 7, more: 130, common: 100, tokens: []string{"Content-Type|3a 20|", "application"}},
	{share: 105, proto: "http", head: outbound, flow: toServer, size: [5]int{4, 9, 13, 23, 67}, nocase: 65, pcre: 42, bits: 2, more: 100, common: 240, tokens: []string{"|0d 0a|User-Agent|3a 20|", "HTTP/1.1|0d 0a|Host|3a|"}},
	{share: 100, proto: "tcp", head: fromWeb, flow: toClient, size: [5]int{2, 12, 23, 36, 82}, nocase: 56, pcre: 34, bits: 9, more: 110, common: 170, tokens: []string{"=", "%u"}},
	{share: 67, proto: "tcp", head: inbound, flow: toClient, size: [5]int{2, 12, 23, 36, 82}, nocase: 56, pcre: 34, bits: 9, more: 110, common: 100, tokens: []string{"|5c|x"}},
	{share: 60, proto: "tcp", head: "$EXTERNAL_NET any -> $SMTP_SERVERS 25", flow: toServer, size: [5]int{2, 8, 11, 21, 65}, nocase: 24, pcre: 35, bits: 6, more: 70, common: 6000, tokens: []string{"Subject|3a|", "EHLO ", "From|3a|"}},
	{share: 70, proto: "tcp", head: outbound, flow: toServer, size: [5]int{3, 8, 11, 21, 65}, nocase: 24, pcre: 35, bits: 6, more: 70, common: 300, tokens: []string{"User-Agent|3a|", "x|9c|"}},
	{share: 84, proto: "tcp", head: "$EXTERNAL_NET any -> $HOME_NET 445", flow: toServer, size: [5]int{2, 8, 11, 21, 65}, nocase: 24, pcre: 35, bits: 6, more: 70, binary: true},
	{share: 65, proto: "tcp", head: "any any -> any any", flow: "established", size: [5]int{3, 5, 8, 17, 92}, nocase: 14, pcre: 3, bits: 12, more: 110, binary: true, common: 600, tokens: []string{"|16 03 01|", "|ff ff ff|"}},
	{share: 33, proto: "ip", head: "any any -> any any", size: [5]int{4, 10, 19, 20, 47}, pcre: 3, binary: true},
	{share: 16, proto: "smtp", head: "any any -> $SMTP_SERVERS any", flow: toServer, size: [5]int{6, 8, 9, 19, 60}, nocase: 24, pcre: 24, more: 30},
	{share: 26, proto: "tcp", head: outbound, flow: toServer, size: [5]int{2, 4, 8, 15, 76}, nocase: 36, pcre: 13, bits: 15, more: 150, offset: true, common: 750, tokens: []string{"|00 03|", "|00 06|", "GET ", "|00 01|"}},
	{share: 162, proto: "tcp", head: "$EXTERNAL_NET any -> $HOME_NET 445", flow: toServer, size: [5]int{2, 4, 8, 15, 76}, nocase: 36, pcre: 13, bits: 15, more: 150, offset: true, binary: true},
	{share: 28, proto: "tcp", head: inbound, flow: toClient, size: [5]int{2, 4, 8, 21, 56}, nocase: 15, pcre: 1, bits: 14, more: 80, offset: true, binary: true, common: 1600, tokens: []string{"|00 06|", "|00|e", "|00 11|"}},
	{share: 53, proto: "tcp", head: "$EXTERNAL_NET 6112 -> $HOME_NET any", flow: toClient, size: [5]int{2, 4, 8, 21, 56}, nocase: 15, pcre: 1, bits: 14, more: 80, offset: true, binary: true},
	{share: 43, proto: "http", head: inbound, flow: toClient, size: [5]int{3, 7, 16, 29, 72}, nocase: 60, pcre: 8, bits: 5, more: 160, offset: true, common: 620, tokens: []string{"HTTP", "|0d 0a|Content-Type|3a 20|"}},
	{share: 17, proto: "tcp", head: "any any -> any any", flow: "established", size: [5]int{2, 4, 8, 13, 30}, nocase: 23, pcre: 3, bits: 17, more: 140, offset: true, binary: true, common: 1600, tokens: []string{"|01 01|", "|00 00 00 01|"}},
	{share: 163, proto: "udp", head: "any any -> any 53", size: [5]int{4, 8, 20, 21, 35}, nocase: 56, pcre: 6, more: 90, offset: true, common: 200, tokens: []string{"|01 00 00 01 00 00 00 00 00 00|"}},
	{share: 77, proto: "udp", head: "any any -> $HOME_NET 5060", size: [5]int{4, 8, 20, 21, 35}, nocase: 56, pcre: 6, more: 90, offset: true, common: 100, tokens: []string{"Via|3a 20|SIP/2.0"}},
	{share: 51, proto: "udp", head: "any any -> any any", size: [5]int{2, 4, 8, 20, 35}, more: 90, offset: true, binary: true, common: 1200, tokens: []string{"|01|", "|0a|", "|02|", "|00 01|"}},
	{share: 14, proto: "smb", head: "any any -> $HOME_NET any", flow: toServer, size: [5]int{4, 12, 16, 21, 33}, nocase: 68, bits: 12, more: 200, offset: true},
	{share: 67, proto: "tcp", head: "any any -> any 1024:65535", flow: toServer, size: [5]int{1, 4, 4, 11, 33}, pcre: 8, bits: 17, more: 40, dsize: true, binary: true, common: 1000, tokens: []string{"x", "8", "|c8|", "|0d 0a|"}},
	{share: 24, proto: "tcp", head: "any 1024: -> any any", flow: toClient, size: [5]int{2, 4, 5, 11, 40}, nocase: 16, bits: 44, more: 30, dsize: true, binary: true, common: 1000, tokens: []string{"|0d 0a|", "|00 00 00 00|"}},
	{share: 16, proto: "tcp", head: "any any -> any any", flow: "established", size: [5]int{1, 4, 6, 24, 27}, bits: 38, more: 50, dsize: true, binary: true, common: 4800, tokens: []string{"|01|", "|02|", "|00 00 00 00|"}},
	{share: 34, proto: "udp", head: "any 1024:65535 -> any 1024:65535", size: [5]int{1, 2, 3, 8, 20}, bits: 5, more: 50, dsize: true, binary: true, common: 2800, tokens: []string{"-", "|08|", "|00 00|"}},
	{share: 9, proto: "icmp", head: "any any -> any any", size: [5]int{4, 8, 32, 33, 64}, more: 10, dsize: true, binary: true},
	{share: 6, proto: "ip", head: "any any -> any any", without: pcreDigits},
	{share: 6, proto: "tcp", head: fromWeb, flow: toClient, without: pcreGUIDs},
	{share: 33, proto: "tcp", head: "$HOME_NET any -> $EXTERNAL_NET $HTTP_PORTS", flow: toServer, without: pcreWords},
	{share: 37, proto: "tcp", head: "$HOME_NET 1024: -> $EXTERNAL_NET 1024:", flow: toServer, without: pcreCommand},
	{share: 20, proto: "tcp", head: "any any -> any any", without: "flags:SF,12; dsize:0; window:%d;"},
	{share: 11, proto: "tcp", head: "$EXTERNAL_NET any -> $HOME_NET $HTTP_PORTS", flow: "to_server", without: "flags:S,12; window:%d;"},
	{share: 28, proto: "tcp", head: "$HOME_NET any -> $EXTERNAL_NET 8443", flow: toServer, without: "dsize:%d;"},
	{share: 9, proto: "udp", head: "any 1024: -> any 1024:", without: "dsize:%d; byte_test:2,=,0xa5b6,0; byte_test:2,=,0x9d3c,2;"},
}
