# shellcheck shell=bash
# Shared by the commands in this directory: saying, installing from the distribution, finding Go and Node.
# Sourced, never run; it moves to the root of the checkout and puts the system's own directories on PATH.
# Nothing here asks a question, and an error is one sentence with its remedy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export DEBIAN_FRONTEND=noninteractive
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin"

# The clang that made the committed BPF objects; another major makes other bytes.
CLANG_MAJOR=14
NODE_LEAST=20.19.0
GO_WANT=$(awk '$1 == "go" { print $2 }' go.mod)
export GO_WANT CLANG_MAJOR
# The proofs are a module of their own, so that the product's tree is the product. PACKAGES are those of both.
export GOWORK=$PWD/script/proof/go.work
PACKAGES=(./... boxdyno/script/proof/...)
export PACKAGES

say() { printf '%s\n' "$*" >&2; }
die() {
	say "${0#"$PWD"/}: $*"
	exit 1
}
have() { command -v "$1" >/dev/null; }

# at_least A B: is version A the same as B or newer?
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

as_root() {
	if [ "$EUID" = 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}
# nice_as N: the nice value of this shell from here on, and where CPU time goes to sessions first (autogroup) of its session.
nice_as() {
	renice -n "$1" -p "$BASHPID" >/dev/null
	[ ! -w /proc/self/autogroup ] || echo "$1" >/proc/self/autogroup
}
# need_root WHAT: ends here, with the remedy, where as_root could not work.
need_root() {
	[ "$EUID" != 0 ] || return 0
	have sudo || die "$* needs root, and sudo is not installed: run this command as root"
	[ -t 0 ] || sudo -n true 2>/dev/null || die "$* needs root, and sudo wants a password but has no terminal to ask for it: run this command as root"
}

# quietly COMMAND...: its output is shown only if it fails.
quietly() {
	local out status=0
	out=$("$@" 2>&1) || status=$?
	[ "$status" = 0 ] || say "$out"
	return "$status"
}

apt_get() { as_root apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=2 -o Acquire::http::Timeout=30 "$@"; }

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# candidate PACKAGE: the version that the distribution would install, or nothing.
candidate() { apt-cache policy "$1" 2>/dev/null | awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }'; }

lists_read=
refresh_lists() { # refresh_lists PACKAGE...: named in the error only
	[ -z "$lists_read" ] || return 0
	have apt-get || die "apt-get is missing: boxdyno's set-up knows Debian, Ubuntu and Raspberry Pi OS; elsewhere install $* by hand"
	need_root "installing $*"
	say "reading the distribution's package lists"
	local said
	said=$(apt_get update 2>&1) || true
	grep '^[WE]:' <<<"$said" >&2 || true
	lists_read=yes
}

# add_packages PACKAGE... (or -t SUITE PACKAGE...): installs from the distribution.
add_packages() {
	refresh_lists "$@"
	say "installing $*"
	quietly apt_get install -y --no-install-recommends "$@" ||
		die "installing $* failed: see apt's message above; is the package mirror named in /etc/apt reachable (try \"apt-get update\")?"
}

# backports PACKAGE: adds the distribution's backports suite, from the mirror and
# the key that this machine's own sources name, for a package whose version in the
# release will not do. Its default priority (100) leaves every other package alone.
# It fails where no source names the suite.
backports() {
	local codename source entry
	codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	for source in /etc/apt/sources.list.d/*.sources; do
		[ -e "$source" ] || continue
		entry=$(awk -v RS= -v suite="$codename" '
			"\n" $0 ~ "\nTypes:[^\n]*deb[ \n]" && "\n" $0 "\n" ~ "\nSuites:([^\n]* )?" suite "[ \n]" && "\n" $0 !~ /\nEnabled: *no/ {
				sub(/Suites:[^\n]*/, "Suites: " suite "-backports")
				sub(/Components:[^\n]*/, "Components: main")
				print
				exit
			}' "$source")
		if [ -n "$entry" ]; then
			add_source sources "$entry" "$1"
			return
		fi
	done
	entry=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | awk -v suite="$codename" '
		$1 == "deb" && !found {
			rest = $0
			sub(/^deb[ \t]+(\[[^]]*\][ \t]+)?/, "", rest)
			split(rest, f, /[ \t]+/)
			if (f[2] == suite && f[1] !~ /^cdrom:/) {
				print substr($0, 1, length($0) - length(rest)) f[1], suite "-backports main"
				found = 1
			}
		}' || true)
	if [ -z "$entry" ]; then
		say "no apt source of this machine names the suite $codename, so its backports cannot be found"
		return 1
	fi
	add_source list "$entry" "$1"
}
add_source() { # add_source sources|list ENTRY PACKAGE
	local file=/etc/apt/sources.list.d/boxdyno-backports.$1
	[ ! -e "$file" ] || return 0
	say "adding the apt source $file, for $3: the release's own will not do, or there is none"
	printf '%s\n' "$2" | as_root tee "$file" >/dev/null
	lists_read=
}
backports_suite() { (. /etc/os-release && echo "$VERSION_CODENAME-backports"); }

go_version() { (cd / && GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null | sed -n 's/^go\([0-9.]*\).*/\1/p'); }

# find_go: puts the newest-enough Go first on PATH; a Go of 1.21 or newer that
# is older than go.mod asks for fetches the right toolchain by itself.
find_go() {
	local least go
	for least in "$GO_WANT" 1.21; do
		for go in "$(command -v go || true)" /usr/local/go/bin/go /usr/lib/go-*/bin/go; do
			[ -x "$go" ] && at_least "$(go_version "$go")" "$least" || continue
			PATH="$(dirname "$go"):$PATH"
			[ "$least" = "$GO_WANT" ] || export GOTOOLCHAIN=auto
			return
		done
	done
	return 1
}

# find_node: puts a Node that can build the page first on PATH.
find_node() {
	PATH="$PWD/.cache/node/node_modules/node/bin:$PATH"
	have npm && have node && at_least "$(node --version | tr -d v)" "$NODE_LEAST"
}

# vcs_flag: a flag for "go build", which fails on a checkout that git refuses
# to read (another owner, say) instead of leaving the commit out.
vcs_flag() {
	if have git && git rev-parse HEAD >/dev/null 2>&1; then echo -buildvcs=auto; else echo -buildvcs=false; fi
}

build() { # build OUTPUT PACKAGE: one static program
	CGO_ENABLED=0 go build -trimpath "$(vcs_flag)" -o "$1" "$2"
}

no_loader() { # no_loader PROGRAM...
	local program headers
	for program in "$@"; do
		headers=$(readelf --program-headers "$program")
		if grep -E 'INTERP|DYNAMIC' <<<"$headers"; then
			return 1
		fi
	done
}
static() { # static GOARCH: builds, and fails where the result asks for a dynamic linker
	local out
	out=$(mktemp -d "${work:-/tmp}/static.XXXXXX")
	GOOS=linux GOARCH=$1 GOARM=7 go build -buildvcs=false -ldflags='-s -w' -o "$out/" ./cmd/...
	no_loader "$out"/*
	rm -r "$out"
}

# Processors that frames are tried on by emulation.
EMULATED='arm64 arm riscv64'
export EMULATED
emulator_of() { # emulator_of GOARCH: the name that QEMU has for it
	case $1 in
	arm64) echo aarch64 ;;
	386) echo i386 ;;
	*) echo "$1" ;;
	esac
}
emulator() { # emulator GOARCH: the program that runs its programs; amd64 runs those of 386 itself
	if [ "$1 $(go env GOHOSTARCH)" = "386 amd64" ]; then
		command -v env
	else
		command -v "qemu-$(emulator_of "$1")-static" || command -v "qemu-$(emulator_of "$1")"
	fi
}
emulated() { # emulated GOARCH [FLAG...]: what frames are made of does not depend on the machine
	local arch=$1 qemu
	qemu=$(emulator "$arch")
	shift
	GOARCH=$arch GOARM=7 go test -count=1 -vet=off -timeout 10m -short -exec "$qemu" "$@" ./unit ./frame &&
		GOARCH=$arch GOARM=7 go test -count=1 -vet=off -timeout 10m -short -exec "$qemu" -run '^Test(Pace|Bucket|Histogram|Tracker|Tally)' ./engine/internal/...
}
