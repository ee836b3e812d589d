// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Both forms of an Ansible inventory say the same; what cannot be is refused.
func TestInventory(t *testing.T) {
	want := []Box{
		{Name: "pi01", SSH: "ssh://pi@10.0.0.1:2222", Become: "sudo -n", Agent: "/", Groups: []string{"rack1", "shelf"}},
		{Name: "pi02", SSH: "pi@pi02", Become: "sudo -n", Agent: "/", Groups: []string{"rack1", "shelf"}},
		{Name: "nuc", SSH: "root@nuc", Agent: "/", Groups: []string{"rack2"}},
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"hosts": "# boards\n[rack1]\npi01 ansible_host=10.0.0.1 ansible_port=2222\npi[02:02]\n[rack2]\nnuc ansible_user=root ; x=1\n" +
			"[shelf:children]\nrack1\n[shelf:vars]\nansible_user = pi\nansible_become='true'\n",
		"hosts.yaml": "all:\n  children:\n    shelf:\n      vars: {ansible_user: pi, ansible_become: yes}\n      children:\n        rack1:\n          hosts:\n" +
			"            pi01: {ansible_host: 10.0.0.1, ansible_port: 2222}\n            pi02:\n    rack2:\n      hosts:\n        nuc: {ansible_user: root}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Inventory(path)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", name, err, d)
		}
	}
	for name, text := range map[string]string{
		"empty": "", "loop": "[a:children]\na\n", "brackets": "[a\nx\n", "range": "x[1:99999999]\n", "letters": "x[a:c]\n", "shell": "x ansible_host=$(id)\n",
		"option": "x ansible_host=-oProxyCommand=id\n", "become": "x;id\n", "list.yaml": "- a\n", "host.yaml": "all: {hosts: [a]}\n", "text.yaml": "all: x\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Inventory(path); err == nil {
			t.Errorf("%s is read as %+v", name, got)
		}
	}
}
