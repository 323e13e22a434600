package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"l4lb/pkg/selector"
)

// ReadHealth reads a health file: a JSON object from instance names to states,
// as selector.Health reads them. A mistake is an InputError that names the line
// and the instance.
func ReadHealth(path string) (map[string]selector.Health, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read health file: %w", err)
	}
	health, offset, err := decodeHealth(data)
	if err != nil {
		return nil, &InputError{File: path, Line: lineOf(data, offset), Err: err}
	}
	return health, nil
}

// lineOf is the line that an offset is in, from 1.
func lineOf(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(int(offset), len(data))], []byte("\n"))
}

// decodeHealth reads one JSON object and nothing else. offset is where a mistake
// is.
func decodeHealth(data []byte) (health map[string]selector.Health, offset int64, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	fail := func(err error) (map[string]selector.Health, int64, error) {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, syntax.Offset, plainJSON(err)
		}
		return nil, dec.InputOffset(), plainJSON(err)
	}
	start, err := dec.Token()
	if err != nil {
		return fail(err)
	}
	if start != json.Delim('{') {
		return fail(errors.New(`health is not an object like {"web-a-1": "UNHEALTHY"}`))
	}
	health = map[string]selector.Health{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return fail(err)
		}
		name, _ := token.(string)
		if _, twice := health[name]; twice {
			return fail(fmt.Errorf("instance %q is there twice", name))
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return fail(err)
		}
		var h selector.Health
		if err := json.Unmarshal(value, &h); err != nil {
			return fail(fmt.Errorf("instance %q: %w", name, err))
		}
		health[name] = h
	}
	if _, err := dec.Token(); err != nil {
		return fail(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fail(errors.New("something follows the object"))
	}
	return health, 0, nil
}

// plainJSON words the JSON package's errors for people.
func plainJSON(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON ends too early")
	}
	if text, ok := strings.CutPrefix(err.Error(), "json: "); ok {
		return errors.New(strings.Replace(text, "unknown field", "unknown key", 1))
	}
	return err
}
