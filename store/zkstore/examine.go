package zkstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
)

// examineTimeout bounds the question to one server that is not the session's.
const examineTimeout = 3 * time.Second

// examine implements [driver.Description].Examine: the ensemble, its servers, and the settings that can be
// seen from outside.
func (s *Store) examine(ctx context.Context) []driver.Finding {
	all, err := casstore.Call(ctx, &s.ops, "examine", "", func(ctx context.Context) ([]driver.Finding, error) {
		all := []driver.Finding{s.examineEnsemble(ctx), s.examineSession(), s.examineUser(ctx)}
		all = append(all, s.examineServers(ctx)...)
		return append(all, s.examineBuffer(ctx)), nil
	})
	switch {
	case errors.Is(err, driver.ErrClosed):
		return []driver.Finding{{About: "ensemble", Risk: err.Error(), Advice: "open the store again"}}
	case err != nil:
		return []driver.Finding{{About: "ensemble", Risk: err.Error(), Advice: "bring the servers back: without a majority no lock is granted"}}
	}
	return all
}

// configNode is where ZooKeeper shows the servers of an ensemble, a line for each.
const configNode = "/zookeeper/config"

// examineEnsemble compares how many servers vote with how many the store knows.
func (s *Store) examineEnsemble(ctx context.Context) driver.Finding {
	f := driver.Finding{About: "ensemble"}
	config, err := retry(ctx, s, func(p *peer) ([]byte, error) {
		data, _, err := p.Get(configNode)
		return data, err
	})
	switch {
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrNoNode):
		return f // the user may not see it, or the servers are older
	case err != nil:
		f.Risk, f.Advice = err.Error(), "bring the servers back: without a majority no lock is granted"
		return f
	}
	voters := 0
	for l := range strings.Lines(string(config)) {
		if strings.HasPrefix(l, "server.") && !strings.Contains(l, ":observer") {
			voters++
		}
	}
	voters, known := max(voters, 1), len(s.cfg.servers)
	f.Found = fmt.Sprintf("%d servers vote, and the store knows %d addresses", voters, known)
	switch {
	case voters == 1:
		f.Risk, f.Advice = "while this server is out, no lock is granted; if its disk is lost, nor are the locks known", "run three or five servers"
	case voters%2 == 0:
		f.Risk, f.Advice = "an even number survives the loss of no more servers than one less, and is more often without a majority", "run three or five servers"
	case known < voters:
		f.Risk, f.Advice = "the store loses its session with the servers that it knows, although the others go on", "give the store the addresses of all servers"
	}
	return f
}

// examineSession compares the session's timeout with what was asked for.
func (s *Store) examineSession() driver.Finding {
	f := driver.Finding{About: "session"}
	p, _, _, _ := s.link.state()
	allowed := p.net.sessionTimeout()
	if allowed == 0 {
		return f
	}
	f.Found = allowed.String()
	if allowed < s.cfg.session {
		f.Risk = fmt.Sprintf("shorter than WithSession(%v): waiters lose their places sooner when the network fails", s.cfg.session)
		f.Advice = "raise maxSessionTimeout, or ask for less"
	}
	return f
}

// examineUser tells what the user may do, and who else may.
func (s *Store) examineUser(ctx context.Context) driver.Finding {
	f := driver.Finding{About: "permissions"}
	acl, err := retry(ctx, s, func(p *peer) ([]zk.ACL, error) {
		acl, _, err := p.GetACL(s.cfg.root)
		return acl, err
	})
	if err == nil {
		f.Found = describeACL(acl)
	}
	if s.onlyLooks.Load() {
		f.Risk, f.Advice = "this user may read locks, and not take them", "WithAuth, or cdrw for this user on the root and all that is below"
	}
	return f
}

// describeACL shows a list as zkCli does, without secrets.
func describeACL(acl []zk.ACL) string {
	var all []string
	for _, a := range acl {
		rights := ""
		for _, r := range []struct {
			bit  int32
			name string
		}{{zk.PermCreate, "c"}, {zk.PermDelete, "d"}, {zk.PermRead, "r"}, {zk.PermWrite, "w"}, {zk.PermAdmin, "a"}} {
			if a.Perms&r.bit != 0 {
				rights += r.name
			}
		}
		id, _, _ := strings.Cut(a.ID, ":") // behind it is the hash of a password
		all = append(all, a.Scheme+":"+id+":"+rights)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// examineServers asks each server what it is.
func (s *Store) examineServers(ctx context.Context) []driver.Finding {
	all := make([]driver.Finding, len(s.cfg.servers))
	_ = casstore.Parallel(len(all), func(i int) error {
		f := driver.Finding{About: "server " + s.cfg.servers[i]}
		if said, err := s.ask(ctx, s.cfg.servers[i]); err != nil {
			f.Risk, f.Advice = err.Error(), "bring it back, or leave it out of the store's addresses"
		} else if mode := line(said, "Mode: "); mode != "" {
			version, _, _ := strings.Cut(line(said, "Zookeeper version: "), "-")
			f.Found = fmt.Sprintf("%s, %s, %s connections", version, mode, line(said, "Connections: "))
		} else {
			f.Found = "answers, and does not say more"
		}
		all[i] = f
		return nil
	})
	return all
}

// ask sends the question "srvr", which servers answer by default (4lw.commands.whitelist).
func (s *Store) ask(ctx context.Context, addr string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	conn, err := s.cfg.connect(ctx, addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return "", err
	}
	said, err := io.ReadAll(io.LimitReader(conn, 4096))
	return string(said), err
}

// line is what stands behind name in one of the lines of text.
func line(text, name string) string {
	for l := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(l, name); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// examineBuffer sends a request as large as WithBuffer says. It asks for a node that is not there.
func (s *Store) examineBuffer(ctx context.Context) driver.Finding {
	const frame = 64 // what a request has besides its path
	f := driver.Finding{About: "jute.maxbuffer"}
	path := s.cfg.root + "/" + strings.Repeat("x", s.cfg.buffer-len(s.cfg.root)-frame)
	var err error
	for range 2 { // a connection may end for another reason
		var p *peer
		if p, err = s.link.get(ctx, patience); err == nil {
			_, _, err = p.Exists(path)
		}
		if !errors.Is(err, zk.ErrConnectionClosed) {
			break
		}
	}
	switch {
	case err == nil:
		f.Found = fmt.Sprintf("%d or more", s.cfg.buffer-frame)
	case errors.Is(err, zk.ErrConnectionClosed):
		f.Found = fmt.Sprintf("below %d", s.cfg.buffer)
		f.Risk, f.Advice = "a large set, or a large result of Once, ends the connection", "tell the store: WithBuffer"
	}
	return f
}
