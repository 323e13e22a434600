// Package config turns the YAML configuration file into an lb.Config. The file
// speaks the Compute API's names, so that exported resources can be pasted in;
// what the API has no word for is in `l4lb:` blocks.
//
// Every mistake is reported at once, each with its file, line and column, the
// offending value and the mend. A configuration that loads has no reference
// that dangles, no value out of its range and no value without effect. The
// package reads one file and nothing else of the host.
package config

import (
	"fmt"
	"net/netip"
	"os"

	"l4lb/pkg/lb"
)

// Document is one valid configuration file.
type Document struct {
	// Config is the configuration with defaults filled in. Its lists are in
	// the order of the file; ports are sorted.
	Config *lb.Config
	// Warnings are settings that are valid and have no effect, sorted by
	// position.
	Warnings []Error
	// Asymmetries are next hops of the two directions of connections that may
	// choose different backends, sorted by position.
	Asymmetries []Asymmetry

	file        string
	vips, dests []val[netip.Prefix]
}

// Load reads and checks the file at path. A file that can be read and is not
// valid gives Errors.
func Load(path string) (*Document, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, data)
}

// Parse checks data, which is the content of a configuration file; file is
// only the name that errors carry. Every error it returns is an Errors that
// holds all mistakes, sorted by position; only a file that is no YAML stops at
// its first.
func Parse(file string, data []byte) (*Document, error) {
	r := &report{file: file}
	root := parseYAML(r, data)
	if root == nil {
		return nil, r.err()
	}
	src := &source{}
	rootSchema().decode(r, root, src)

	c := newCheck(src, r)
	for _, rule := range rules() {
		rule(c)
	}
	for _, rule := range unsupported() {
		rule(c)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	for _, rule := range noEffect() {
		rule(c)
	}
	doc := &Document{Config: build(c), Warnings: r.warnings(), Asymmetries: asymmetries(c), file: file}
	for i := range src.rules {
		doc.vips = append(doc.vips, src.rules[i].address)
	}
	for i := range src.routes {
		doc.dests = append(doc.dests, src.routes[i].dest)
	}
	return doc, nil
}

// CheckHost refuses what the host that is about to run the configuration does
// not allow. addresses are its own, each with the length of its subnet. For a
// forwarding rule's address its network stack would answer beside the data
// plane, and a route to a part of its subnets would take packets from hosts that
// are there. The error is an Errors with their positions.
func (d *Document) CheckHost(addresses []netip.Prefix) error {
	r := &report{file: d.file}
	for _, vip := range d.vips {
		for _, p := range addresses {
			if a := p.Addr().Unmap().WithZone(""); vip.v.Contains(a) {
				r.errorf(vip.pos, "IPAddress %s is an address of this host: remove it from the interface, the data plane answers for it", a)
				break
			}
		}
	}
	for _, dest := range d.dests {
		for _, p := range addresses {
			if p = p.Masked(); p.Bits() <= dest.v.Bits() && p.Contains(dest.v.Addr()) {
				r.errorf(dest.pos, "destRange %s is in %s, a subnet of this host, whose packets take no route: use a destination beyond it", dest.v, p)
				break
			}
		}
	}
	return r.err()
}
