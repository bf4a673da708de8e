package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/console"
	"github.com/keyturn/keyturn/core"
)

// uiFlags are the flags of ui.
type uiFlags struct {
	listen   string
	operate  bool
	hosts    []string
	proxy    string
	users    string // a file
	cert     string // another one
	key      string // the certificate's
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

It listens on this machine only. For others, give --auth-file, a file of users as "htpasswd -B" writes it, and
--tls-cert with --tls-key. Or put a proxy in front that says who they are, and name its header with --behind-proxy;
nobody but the proxy may reach the address then. The user is the operator's name.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			// It is a service, and its log alone says later who took which key away, and why.
			return a.withEngine(cmd.Context(), func(eng *core.Engine) error { return a.serve(cmd.Context(), eng, f) }, core.WithLogger(a.log()))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:0", "the `ADDRESS` to listen on; port 0 is a free one")
	flags.BoolVar(&f.operate, "operate", false, "allow to break locks; otherwise the console is read only")
	flags.StringArrayVar(&f.hosts, "host", nil, "another `NAME` by which browsers reach it")
	flags.StringVar(&f.proxy, "behind-proxy", "", "the `HEADER` in which a proxy says who sends the request; no token is needed then")
	flags.StringVar(&f.users, "auth-file", "", "a `FILE` of users with lines NAME:HASH, as htpasswd -B writes it; no token is needed then")
	flags.StringVar(&f.cert, "tls-cert", "", "a `FILE` with the certificate, and those between it and the root, in PEM")
	flags.StringVar(&f.key, "tls-key", "", "a `FILE` with the certificate's key, in PEM")
	flags.StringVar(&f.title, "title", "", "what the pages are about, such as \"im prod\"")
	flags.StringVar(&f.traceURL, "trace-url", "", "where traces can be seen, as in https://tempo.example/trace/{trace_id}")
	flags.DurationVar(&f.interval, "interval", time.Second, "how often the store is asked while somebody looks")
	flags.BoolVar(&f.history, "history", false, "ask the store also while nobody looks, so that the past has no gaps")
	return cmd
}

// check refuses to be reached by anybody whom nobody has asked who they are, or whose password others can read.
func (f *uiFlags) check() error {
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return usage("--listen %q: want HOST:PORT", f.listen)
	}
	ip := net.ParseIP(host)
	here := host == "localhost" || ip != nil && ip.IsLoopback()
	switch {
	case (f.cert == "") != (f.key == ""):
		return usage("--tls-cert and --tls-key need each other")
	case f.users != "" && f.proxy != "":
		return usage("--auth-file and --behind-proxy exclude each other")
	case f.proxy != "" && !headerName.MatchString(f.proxy):
		return usage("--behind-proxy %q: want the name of a header, such as X-Forwarded-User", f.proxy)
	case !here && f.proxy == "" && (f.users == "" || f.cert == ""):
		return usage("--listen %s can be reached from other machines, so it needs --auth-file with --tls-cert, or --behind-proxy HEADER", f.listen)
	}
	for _, name := range f.hosts {
		if _, _, err := net.SplitHostPort(name); err == nil || strings.Contains(name, "/") {
			return usage("--host %q: want a name without a port", name)
		}
	}
	return nil
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// serve serves the console until ctx ends.
func (a *app) serve(ctx context.Context, eng *core.Engine, f uiFlags) error {
	gate := gate{operate: f.operate}
	listed, keys, err := f.read()
	if err != nil {
		return exit(statusConfig, "%v", err)
	}
	page, err := console.New(eng, f.options(&gate)...)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return errors.Join(exit(statusConfig, "%v", err), page.Close())
	}
	gate.next = page
	address, port := f.address(l)
	switch {
	case listed != nil:
		gate.admit = listed.admit
	case f.proxy != "":
		gate.admit = byHeader(f.proxy)
	default:
		token := rand.Text()
		gate.admit = byToken(token, port, keys != nil)
		address += "?token=" + token
	}
	server := &http.Server{
		Handler: &gate, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: keys, MinVersion: tls.VersionTLS12},
		ErrorLog:  slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn), // of what strangers send, only with -v
	}
	served := make(chan error, 1)
	go func() {
		if keys != nil {
			served <- server.ServeTLS(l, "", "")
			return
		}
		served <- server.Serve(l)
	}()
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

// read reads the files that the flags name; nil: none.
func (f *uiFlags) read() (listed *users, keys []tls.Certificate, err error) {
	if f.users != "" {
		if listed, err = readUsers(f.users); err != nil {
			return nil, nil, err
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, nil, err
		}
		keys = append(keys, pair)
	}
	return listed, keys, nil
}

// options are those of the console.
func (f *uiFlags) options(gate *gate) []console.Option {
	opts := []console.Option{console.WithInterval(f.interval), console.WithOperator(gate.operator)}
	if f.proxy == "" && f.users == "" { // the token is for this machine
		host, _, _ := net.SplitHostPort(f.listen) // it was checked; this machine has more addresses than 127.0.0.1
		opts = append(opts, console.WithHosts(append([]string{"localhost", "127.0.0.1", "::1", host}, f.hosts...)...))
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
	return opts
}

// address is where a browser finds the listener.
func (f *uiFlags) address(l net.Listener) (url, port string) {
	scheme := "http"
	if f.cert != "" {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(l.Addr().String()) // it is one of a listener
	if net.ParseIP(host).IsUnspecified() && len(f.hosts) > 0 {
		host = strings.Trim(f.hosts[0], "[]")
	}
	return scheme + "://" + net.JoinHostPort(host, port) + "/", port
}
