package storeurl

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// URL is the URL of a store in its parts. Unlike [url.URL], it may have several hosts.
type URL struct {
	Scheme string
	// User is the user and the password, decoded; nil: none.
	User *url.Userinfo
	// Hosts are as in the URL, each with a port or without; empty: none.
	Hosts []string
	// Path is what follows the hosts, or the scheme if there are no hosts, decoded: "/0" in
	// redis://localhost/0, and "my.db" in sqlite:my.db.
	Path string
	// Query are the parameters.
	Query url.Values
}

var schemes = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)

// Parse reads a URL. It does not look whether the scheme is registered. The error matches
// [ErrInvalidURL]. It names no part of the text except the scheme, because in a text that cannot be
// read any part may be a password.
func Parse(text string) (*URL, error) {
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok || !schemes.MatchString(scheme) {
		return nil, &Error{Err: invalid("want SCHEME:..., as in redis://localhost")}
	}
	u := &URL{Scheme: scheme}
	if err := u.parse(rest); err != nil {
		return nil, &Error{URL: scheme + ":", Err: err}
	}
	return u, nil
}

func (u *URL) parse(rest string) (err error) {
	if strings.Contains(rest, "#") {
		return invalid("the character # is written as %%23")
	}
	rest, query, _ := strings.Cut(rest, "?")
	if u.Query, err = url.ParseQuery(query); err != nil {
		return invalid("the parameters are not of the form a=1&b=2, or have a %% that is not written as %%25")
	}
	path := rest
	if authority, ok := strings.CutPrefix(rest, "//"); ok {
		end := strings.IndexByte(authority, '/')
		if end < 0 {
			end = len(authority)
		}
		authority, path = authority[:end], authority[end:]
		if err := u.parseAuthority(authority); err != nil {
			return err
		}
	}
	if u.Path, err = url.PathUnescape(path); err != nil {
		return invalid("the path has a %% that is not written as %%25")
	}
	if strings.ContainsFunc(u.Path, unicode.IsControl) {
		return invalid("the path has control characters")
	}
	return nil
}

func (u *URL) parseAuthority(authority string) error {
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		name, password, has := strings.Cut(authority[:at], ":")
		name, err := url.PathUnescape(name)
		if err != nil {
			return invalid("the user has a %% that is not written as %%25")
		}
		u.User = url.User(name)
		if has {
			if password, err = url.PathUnescape(password); err != nil {
				return invalid("the password has a %% that is not written as %%25")
			}
			u.User = url.UserPassword(name, password)
		}
		authority = authority[at+1:]
	}
	if authority == "" {
		return nil
	}
	u.Hosts = strings.Split(authority, ",")
	for i, host := range u.Hosts {
		if !validHost(host) {
			return invalid("host %d of %d is not of the form HOST or HOST:PORT (a / or ? in a password is written as %%2F or %%3F)", i+1, len(u.Hosts))
		}
	}
	return nil
}

func validHost(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil { // without a port
		name, port = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "1"
		if strings.Contains(name, ":") != strings.HasPrefix(host, "[") || strings.HasPrefix(host, "[") != strings.HasSuffix(host, "]") {
			return false
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	bad := func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("[]/%\\'\"", r)
	}
	return err == nil && n > 0 && name != "" && !strings.ContainsFunc(name, bad)
}

// Addrs returns the hosts, each as host:port. port is for those that have none.
func (u *URL) Addrs(port string) []string {
	addrs := make([]string, len(u.Hosts))
	for i, host := range u.Hosts {
		addrs[i] = host
		if _, _, err := net.SplitHostPort(host); err != nil {
			addrs[i] = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
	}
	return addrs
}

// String returns the URL without its user, password and parameters, for messages.
func (u *URL) String() string {
	if len(u.Hosts) > 0 {
		return u.Scheme + "://" + strings.Join(u.Hosts, ",") + u.Path
	}
	return u.Scheme + ":" + u.Path
}

// Password returns the password; "": none.
func (u *URL) Password() string {
	if u.User == nil {
		return ""
	}
	password, _ := u.User.Password()
	return password
}

// Username returns the user; "": none.
func (u *URL) Username() string {
	if u.User == nil {
		return ""
	}
	return u.User.Username()
}

// WithParam returns a copy of u whose parameter name has that value.
func (u *URL) WithParam(name, value string) *URL {
	changed := *u
	changed.Query = url.Values{}
	maps.Copy(changed.Query, u.Query)
	changed.Query.Set(name, value)
	return &changed
}

// invalid returns an error that matches ErrInvalidURL.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalidURL}, args...)...)
}
