package httpcarry_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/experimental/carry"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/middleware/http/experimental/httpcarry"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask sends a request under ctx, through a client that carries leases or not.
func ask(t *testing.T, ctx context.Context, carries bool, url string, header ...string) (int, string) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	if carries {
		client.Transport = httpcarry.Transport(transport)
		defer client.CloseIdleConnections()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range header {
		r.Header.Add(carry.Header, h)
	}
	before := fmt.Sprint(r.Header)
	response, err := client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	if after := fmt.Sprint(r.Header); after != before {
		t.Errorf("the request was changed: %s", after)
	}
	return response.StatusCode, string(body)
}

// A request gets the key that its caller holds, and no other caller's, if both sides opted in.
func TestRequestUnderTheCallersLease(t *testing.T) {
	store := memstore.New()
	caller := ruletest.NewEngine(t, store)
	callee := ruletest.NewEngine(t, store.Peer(), core.WithHooks(ruletest.SeeLeases))
	depth := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, ruletest.Seen(r.Context()).Depth())
	})
	mux := http.NewServeMux()
	mux.Handle("GET /users/{id}", ruletest.Middleware(t, callee, lockhttp.Serialize("*", "user:{path.id}", core.WithFailFast()))(depth))
	believing, deaf := ruletest.Serve(t, httpcarry.Handler(mux), false).URL, ruletest.Serve(t, mux, false).URL

	err := caller.Do(context.Background(), "user:42", func(ctx context.Context) error {
		lease, _ := core.LeaseFrom(ctx)
		truth := carry.Leases(ctx)
		forged := strings.Replace(truth, fmt.Sprint(lease.Token()), "1", 1)
		for _, tt := range []struct {
			name    string
			url     string
			carries bool
			said    []string
			status  int
			body    string
		}{
			{"both opted in", believing + "/users/42", true, nil, 200, "2"},
			{"another key", believing + "/users/43", true, nil, 200, "1"},
			{"only the client", deaf + "/users/42", true, nil, 409, ""},
			{"only the server", believing + "/users/42", false, nil, 409, ""},
			{"neither", deaf + "/users/42", false, nil, 409, ""},
			{"a forged token", believing + "/users/42", false, []string{forged}, 409, ""},
			{"a client of its own making, on two lines", believing + "/users/42", false, []string{forged, truth}, 200, "2"},
		} {
			status, body := ask(t, ctx, tt.carries, tt.url, tt.said...)
			if status != tt.status || tt.body != "" && body != tt.body {
				t.Errorf("%s: %d %s", tt.name, status, body)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A carried lease is for the host that the caller named.
func TestRedirectToAnotherHost(t *testing.T) {
	eng := ruletest.NewEngine(t, memstore.New())
	said := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" { // it stays, and is no more to be trusted for that
			http.Redirect(w, r, "/end", http.StatusFound)
			return
		}
		said <- r.Header.Get(carry.Header)
	}))
	defer other.Close()
	mux := http.NewServeMux()
	s := ruletest.Serve(t, mux, false)
	mux.HandleFunc("GET /there", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)+r.URL.Query().Get("to"), http.StatusFound)
	})
	mux.HandleFunc("GET /here", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/end", http.StatusFound) })
	mux.HandleFunc("GET /end", func(_ http.ResponseWriter, r *http.Request) { said <- r.Header.Get(carry.Header) })
	err := eng.Do(context.Background(), "k", func(ctx context.Context) error {
		ask(t, ctx, true, s.URL+"/there")
		if got := ruletest.Receive(t, "the other host", said); got != "" {
			t.Errorf("another host got %q", got)
		}
		ask(t, ctx, true, s.URL+"/there?to=/there")
		if got := ruletest.Receive(t, "the other host", said); got != "" {
			t.Errorf("another host that redirects got %q", got)
		}
		ask(t, ctx, true, s.URL+"/here")
		if got := ruletest.Receive(t, "the same host", said); got != carry.Leases(ctx) {
			t.Errorf("the same host got %q", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDefaultTransport(t *testing.T) {
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	s := ruletest.Serve(t, http.HandlerFunc(ruletest.Done), false)
	client := &http.Client{Transport: httpcarry.Transport(nil)}
	response, err := client.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	client.CloseIdleConnections()
	(&http.Client{Transport: httpcarry.Transport(roundTripper{})}).CloseIdleConnections()
}

// roundTripper has no connections to close.
type roundTripper struct{ http.RoundTripper }

// A description that went over TLS is not sent in clear.
func TestRedirectOutOfTLS(t *testing.T) {
	eng := ruletest.NewEngine(t, memstore.New())
	var said []string
	next := func(r *http.Request) (*http.Response, error) {
		said = append(said, r.URL.Scheme+" "+r.Header.Get(carry.Header))
		answer := httptest.NewRecorder()
		if r.URL.Scheme == "https" {
			http.Redirect(answer, r, "http://service.test/", http.StatusFound)
		}
		response := answer.Result()
		response.Request = r
		return response, nil
	}
	client := &http.Client{Transport: httpcarry.Transport(transportFunc(next))}
	err := eng.Do(context.Background(), "k", func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://service.test/", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(r)
		if err != nil {
			return err
		}
		if want := []string{"https " + carry.Leases(ctx), "http "}; !slices.Equal(said, want) {
			t.Errorf("sent %q, want %q", said, want)
		}
		return response.Body.Close()
	})
	if err != nil {
		t.Error(err)
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
