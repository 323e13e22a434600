package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// serveCapture has the gateway run the program of a capture for as long as the
// request's body lasts: it ends with the client, however that ends. The answer's
// header says that the program runs, its body that it no longer does.
func serveCapture(w http.ResponseWriter, r *http.Request, s Source) {
	began := false
	err := capture(w, r, s, func() {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		began = http.NewResponseController(w).Flush() == nil
	})
	if !began {
		reply(w, r, func(*http.Request) (any, error) { return struct{}{}, err })
		return
	}
	var body any = struct{}{}
	if err != nil {
		body = failure{err.Error()}
	}
	// A client that went away is nobody's concern.
	_ = json.NewEncoder(w).Encode(body)
}

func capture(w http.ResponseWriter, r *http.Request, s Source, started func()) error {
	if err := requireJSON(r); err != nil {
		return err
	}
	program, err := strconv.ParseUint(r.URL.Query().Get("program"), 10, 32)
	if err != nil {
		return badRequest{fmt.Errorf("program %q is not the id of a program", r.URL.Query().Get("program"))}
	}
	if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
		return fmt.Errorf("answer while the request lasts: %w", err)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		// Its end is all that the body says.
		_, _ = io.Copy(io.Discard, r.Body)
		cancel()
	}()
	return s.Capture(ctx, uint32(program), started)
}

// Capture has the gateway run a program of a capture instead of its own until ctx
// ends. It calls started when that is so, and returns when it no longer is: nil
// when ctx ended it, else why.
func (c *Client) Capture(ctx context.Context, program uint32, started func()) error {
	body, hold := io.Pipe()
	defer hold.Close()
	query := url.Values{"program": {strconv.FormatUint(uint64(program), 10)}}
	// The connection outlives ctx by the time that the gateway takes.
	req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, c.base+"/v1/capture?"+query.Encode(), body)
	if err != nil {
		return fmt.Errorf("ask the gateway: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	go func() {
		// The first byte sends the header off. The gateway closes the pipe if it
		// takes no body.
		_, _ = hold.Write([]byte("\n"))
	}()
	client := *c.http
	client.Timeout = 0
	resp, err := client.Do(req)
	if err != nil {
		return c.noAnswer(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return readFailure(resp)
	}
	started()
	defer context.AfterFunc(ctx, func() { hold.Close() })()
	var end failure
	if err := json.NewDecoder(resp.Body).Decode(&end); err != nil {
		return fmt.Errorf("the daemon no longer answers: %w", err)
	}
	if end.Error != "" {
		return errors.New(end.Error)
	}
	return nil
}
