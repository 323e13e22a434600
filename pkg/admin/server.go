package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/netip"
	"time"
)

// answerTimeout bounds how long a request may wait for the controller.
const answerTimeout = 5 * time.Second

// failure is the body of an answer that is an error.
type failure struct {
	Error string `json:"error"`
}

// badRequest is an error in what was asked.
type badRequest struct{ error }

// NewHandler serves s:
//
//	GET  /v1/status
//	GET  /v1/services
//	GET  /v1/backends?service=
//	GET  /v1/zones
//	GET  /v1/flows?client=&vip=&backend=&service=&zone=&state=&minIdleSec=&limit=
//	GET  /v1/explain?service=&client=
//	POST /v1/drain?instance=&service=
//	POST /v1/undrain?instance=&service=
//	POST /v1/capture?program=, which lasts as long as its body
//
// Answers are JSON. An error is {"error": "…"} with status 400 for a bad
// request, 404 for an unknown name, 409 for a second capture, 503 while starting
// and 500 otherwise.
func NewHandler(s Source) *http.ServeMux {
	mux := http.NewServeMux()
	get := func(path string, answer func(*http.Request) (any, error)) {
		mux.HandleFunc("GET /v1/"+path, func(w http.ResponseWriter, r *http.Request) { reply(w, r, answer) })
	}
	post := func(path string, do func(ctx context.Context, instance, service string) error) {
		mux.HandleFunc("POST /v1/"+path, func(w http.ResponseWriter, r *http.Request) {
			reply(w, r, func(r *http.Request) (any, error) { return struct{}{}, change(r, do) })
		})
	}
	get("status", func(*http.Request) (any, error) { return s.Status() })
	get("services", func(*http.Request) (any, error) {
		list, err := s.Services()
		return ServiceList{list}, err
	})
	get("backends", func(r *http.Request) (any, error) {
		list, err := s.Backends(r.URL.Query().Get("service"))
		return BackendList{list}, err
	})
	get("zones", func(*http.Request) (any, error) {
		list, err := s.Zones()
		return ZoneList{list}, err
	})
	get("flows", func(r *http.Request) (any, error) {
		f, err := parseFilter(r.URL.Query())
		if err != nil {
			return nil, badRequest{err}
		}
		return s.Flows(f)
	})
	get("explain", func(r *http.Request) (any, error) {
		query := r.URL.Query()
		client, err := netip.ParseAddr(query.Get("client"))
		if err != nil {
			return nil, badRequest{fmt.Errorf("client %q is not an IP address", query.Get("client"))}
		}
		return s.Explain(r.Context(), query.Get("service"), client)
	})
	post("drain", s.Drain)
	post("undrain", s.Undrain)
	mux.HandleFunc("POST /v1/capture", func(w http.ResponseWriter, r *http.Request) { serveCapture(w, r, s) })
	return mux
}

// requireJSON keeps pages in a browser on the gateway's host from asking.
func requireJSON(r *http.Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return badRequest{errors.New("the Content-Type must be application/json")}
	}
	return nil
}

// change does what a POST asks for.
func change(r *http.Request, do func(ctx context.Context, instance, service string) error) error {
	if err := requireJSON(r); err != nil {
		return err
	}
	query := r.URL.Query()
	if query.Get("instance") == "" {
		return badRequest{errors.New("no instance is named")}
	}
	return do(r.Context(), query.Get("instance"), query.Get("service"))
}

func reply(w http.ResponseWriter, r *http.Request, answer func(*http.Request) (any, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	body, err := answer(r.WithContext(ctx))
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(statusOf(err))
		body = failure{err.Error()}
	}
	// A client that went away is nobody's concern.
	_ = json.NewEncoder(w).Encode(body)
}

func statusOf(err error) int {
	var bad badRequest
	switch {
	case errors.As(err, &bad):
		return http.StatusBadRequest
	case errors.Is(err, ErrUnknown):
		return http.StatusNotFound
	case errors.Is(err, ErrBusy):
		return http.StatusConflict
	case errors.Is(err, ErrNotReady), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
