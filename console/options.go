package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
)

// Option changes what [New] makes.
type Option func(*config) error

type config struct {
	title    string
	traceURL string
	operator func(*http.Request) (name string, ok bool)
	reader   func(*http.Request) bool
	rules    func() []coverage.Target
	hosts    []string
	interval time.Duration
	history  bool
}

func refuse(option string, value any, want string) error {
	return &driver.OptionError{Option: option, Value: value, Want: want}
}

// WithTitle names what the console shows, such as "im prod", in the head of each page.
func WithTitle(title string) Option {
	return func(c *config) error {
		const most = 100
		if title == "" || len(title) > most || !utf8.ValidString(title) {
			return refuse("WithTitle", title, "1 to 100 bytes of UTF-8")
		}
		c.title = title
		return nil
	}
}

// WithTraceURL makes traces links, such as "https://tempo.example/trace/{trace_id}". It needs the scheme
// http or https, and {trace_id} in the path or query. Only W3C trace ids become links. Without it, they are text.
func WithTraceURL(template string) Option {
	return func(c *config) error {
		u, err := url.Parse(template) // which takes no braces before the path
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Count(template, placeholder) != 1 {
			return refuse("WithTraceURL", template, "a URL of http or https with {trace_id}")
		}
		c.traceURL = template
		return nil
	}
}

const placeholder = "{trace_id}"

// WithOperator says who may break locks: f returns the operator's name, which becomes the beginning of
// each reason, and whether this request comes from one; an empty name is nobody's. Without it, the console
// is read only. f is called from several goroutines at a time.
func WithOperator(f func(*http.Request) (name string, ok bool)) Option {
	return func(c *config) error {
		if f == nil {
			return refuse("WithOperator", nil, "a function")
		}
		c.operator = f
		return nil
	}
}

// WithReader says who may look: a request for which f returns false gets 403 Forbidden. Without it,
// everybody who reaches the handler may look. f is called from several goroutines at a time.
func WithReader(f func(*http.Request) bool) Option {
	return func(c *config) error {
		if f == nil {
			return refuse("WithReader", nil, "a function")
		}
		c.reader = f
		return nil
	}
}

// WithHosts refuses requests whose Host header has another name than these, without a port: 421
// Misdirected Request. It keeps away pages of others that had their own name point to this server (DNS
// rebinding). Without it, any name is accepted.
func WithHosts(names ...string) Option {
	return func(c *config) error {
		if len(names) == 0 {
			return refuse("WithHosts", names, "at least one name")
		}
		var hosts []string
		for _, name := range names {
			if name == "" {
				return refuse("WithHosts", names, "names that are not empty")
			}
			hosts = append(hosts, strings.ToLower(strings.Trim(name, "[]")))
		}
		c.hosts = hosts
		return nil
	}
}

// WithRules adds a page with the rules of the program in which the console is mounted. f returns what the
// middlewares' Coverage methods return. It is called from several goroutines at a time.
func WithRules(f func() []coverage.Target) Option {
	return func(c *config) error {
		if f == nil {
			return refuse("WithRules", nil, "a function")
		}
		c.rules = f
		return nil
	}
}

// WithInterval sets how often the store is asked while somebody looks: from 200 ms to a minute. The
// default is a second.
func WithInterval(d time.Duration) Option {
	return func(c *config) error {
		const least = 200 * time.Millisecond
		if d < least || d > time.Minute {
			return refuse("WithInterval", d, "200 ms to a minute")
		}
		c.interval = d
		return nil
	}
}

// WithHistory has the store asked also while nobody looks. So the bands and the hot keys have no gaps.
func WithHistory() Option {
	return func(c *config) error {
		c.history = true
		return nil
	}
}

func configure(opts []Option) (config, error) {
	c := config{interval: time.Second}
	return c, errors.Join(driver.Configure(&c, "New", opts)...)
}
