package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"l4lb/pkg/lb"
	"l4lb/pkg/selector"
)

// event is one line of an events file.
type event struct {
	before int // packet
	line   int
	config *lb.Config                 // nil for none
	health map[string]selector.Health // merged into what holds
}

// readEvents reads an events file and the configurations that it names, whose
// paths are relative to it. Every error that is a line's is an InputError.
func readEvents(path string, load func(string) (*lb.Config, error)) ([]event, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read events file: %w", err)
	}
	var list []event
	for i, line := range bytes.Split(data, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		ev, err := readEvent(line, filepath.Dir(path), load)
		if err == nil && len(list) > 0 && ev.before < list[len(list)-1].before {
			err = fmt.Errorf("before %d comes behind before %d: events are in order", ev.before, list[len(list)-1].before)
		}
		if err != nil {
			return nil, &InputError{File: path, Line: i + 1, Err: err}
		}
		ev.line = i + 1
		list = append(list, ev)
	}
	return list, nil
}

func readEvent(line []byte, dir string, load func(string) (*lb.Config, error)) (event, error) {
	var fields struct {
		Before *int            `json:"before"`
		Health json.RawMessage `json:"health"`
		Config *string         `json:"config"`
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&fields); err != nil {
		return event{}, plainJSON(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return event{}, errors.New("something follows the object: one event a line")
	}
	if fields.Before == nil {
		return event{}, errors.New(`"before" is missing: the index of the packet that the event comes before`)
	}
	if *fields.Before < 0 {
		return event{}, fmt.Errorf("before %d: packets count from 0", *fields.Before)
	}
	if fields.Health == nil && fields.Config == nil {
		return event{}, errors.New(`neither "health" nor "config" is there: the event does nothing`)
	}
	ev := event{before: *fields.Before}
	if fields.Health != nil {
		var err error
		if ev.health, _, err = decodeHealth(fields.Health); err != nil {
			return event{}, err
		}
	}
	if fields.Config == nil {
		return ev, nil
	}
	if load == nil {
		return event{}, errors.New("configurations cannot be loaded here")
	}
	file := *fields.Config
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	var err error
	ev.config, err = load(file)
	return ev, err
}
