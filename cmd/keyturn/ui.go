package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/console"
	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
)

// uiFlags are the flags of ui.
type uiFlags struct {
	listen   string
	operate  bool
	hosts    []string
	proxy    string
	title    string
	traceURL string
	interval time.Duration
	history  bool
}

func (a *app) uiCommand() *cobra.Command {
	var f uiFlags
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serve the console: web pages that show locks, and break them with --operate",
		Long: `Serve the console, web pages that show who holds what and who waits, until a signal. The address is printed, with a token
that only you know; open it in a browser.

It listens on this machine only. For others, put a proxy in front that says who they are, and name its header with
--behind-proxy; the header is the operator's name. Nobody but the proxy may reach the address then.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return a.withEngine(cmd.Context(), func(eng *core.Engine) error { return a.serve(cmd.Context(), eng, f) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:0", "the `ADDRESS` to listen on; port 0 is a free one")
	flags.BoolVar(&f.operate, "operate", false, "allow to break locks; otherwise the console is read only")
	flags.StringArrayVar(&f.hosts, "host", nil, "another `NAME` by which browsers reach it")
	flags.StringVar(&f.proxy, "behind-proxy", "", "the `HEADER` in which a proxy says who sends the request; no token is needed then")
	flags.StringVar(&f.title, "title", "", "what the pages are about, such as \"im prod\"")
	flags.StringVar(&f.traceURL, "trace-url", "", "where traces can be seen, as in https://tempo.example/trace/{trace_id}")
	flags.DurationVar(&f.interval, "interval", time.Second, "how often the store is asked while somebody looks")
	flags.BoolVar(&f.history, "history", false, "ask the store also while nobody looks, so that the past has no gaps")
	return cmd
}

// check refuses to be reached by anybody without a proxy that asks who they are.
func (f *uiFlags) check() error {
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return usage("--listen %q: want HOST:PORT", f.listen)
	}
	ip := net.ParseIP(host)
	if f.proxy == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usage("--listen %s can be reached from other machines, so it needs --behind-proxy HEADER", f.listen)
	}
	return nil
}

// serve serves the console until ctx ends.
func (a *app) serve(ctx context.Context, eng *core.Engine, f uiFlags) error {
	gate := gate{header: f.proxy, operate: f.operate, token: rand.Text()}
	opts := []console.Option{console.WithInterval(f.interval), console.WithOperator(gate.operator)}
	if f.proxy == "" {
		opts = append(opts, console.WithHosts(append([]string{"localhost", "127.0.0.1", "::1"}, f.hosts...)...))
	} else if len(f.hosts) > 0 {
		opts = append(opts, console.WithHosts(f.hosts...))
	}
	if f.title != "" {
		opts = append(opts, console.WithTitle(f.title))
	}
	if f.traceURL != "" {
		opts = append(opts, console.WithTraceURL(f.traceURL))
	}
	if f.history {
		opts = append(opts, console.WithHistory())
	}
	page, err := console.New(eng, opts...)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return errors.Join(exit(statusConfig, "%v", err), page.Close())
	}
	_, port, _ := net.SplitHostPort(l.Addr().String()) // it is one of a listener
	gate.cookie = "keyturn_ui_" + port                 // browsers give cookies to all ports of a host
	gate.next = page
	server := &http.Server{Handler: &gate, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	address := "http://" + l.Addr().String() + "/"
	if f.proxy == "" {
		address += "?token=" + gate.token
	}
	fmt.Fprintln(a.stdout, address)
	a.say("the console is at the address above, until Ctrl-C")
	select {
	case err = <-served:
	case <-ctx.Done():
		_ = page.Close() // ends the streams
		_ = server.Close()
		<-served
		return nil
	}
	return errors.Join(err, page.Close())
}

// gate lets only those in who have the token, or whom the proxy knows.
type gate struct {
	header, token, cookie string
	operate               bool
	next                  http.Handler
}

// operator says who may break locks: whoever has the token, or whom the proxy names.
func (g *gate) operator(r *http.Request) (string, bool) {
	if !g.operate {
		return "", false
	}
	if g.header != "" {
		return r.Header.Get(g.header), true
	}
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return name, true
}

// ServeHTTP implements [http.Handler]. The token in the address becomes a cookie that other sites can't use, and
// leaves the address, so that it is in no history and no screenshot.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.header != "" {
		if !printable(r.Header.Get(g.header)) {
			http.Error(w, "the proxy did not say who you are", http.StatusForbidden)
			return
		}
		g.next.ServeHTTP(w, r)
		return
	}
	if c, err := r.Cookie(g.cookie); err == nil && g.right(c.Value) {
		g.next.ServeHTTP(w, r)
		return
	}
	query := r.URL.Query()
	if r.Method != http.MethodGet || !g.right(query.Get("token")) {
		http.Error(w, "open the address that keyturn ui printed", http.StatusForbidden)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: g.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (g *gate) right(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(g.token)) == 1
}

// printable reports whether name can stand in a reason.
func printable(name string) bool {
	return name != "" && len(name) <= driver.MaxNoteBytes/2 && strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}
