package sqlstore

import "github.com/keyturn/keyturn/internal/keystate"

// Waker carries messages of PostgreSQL to this process, on a connection of its own. Package
// pgwake has one. It is safe for concurrent use.
type Waker interface {
	// Channel is the name of the channel that it listens to. It is of this process alone.
	Channel() string
	// Messages delivers what was sent to the channel. An empty message says that others may
	// have been lost: the connection broke, or was made anew.
	Messages() <-chan string
	// Server names the server that sends the messages, by a name that it has since it was started;
	// "" while the first connection is being made. The error says why no messages arrive at present.
	// It does no I/O. When the name or the error comes or goes, an empty message follows.
	Server() (string, error)
	// Close ends the connection, and closes the channel that Messages returns, from which the store
	// reads no more by then.
	Close() error
}

// inbox is where a message reaches this process; "": nowhere.
func (s *Store) inbox() string {
	if s.cfg.waker == nil {
		return ""
	}
	return s.cfg.waker.Channel()
}

// hears reports whether messages reach this process.
func (s *Store) hears() bool {
	if s.cfg.waker == nil {
		return false
	}
	server, err := s.cfg.waker.Server()
	return server != "" && err == nil
}

// listen passes the messages of the waker on, until Close begins.
func (s *Store) listen() {
	messages := s.cfg.waker.Messages()
	for {
		select {
		case message, more := <-messages:
			if !more {
				return
			}
			s.hear(message)
		case <-s.life.Done():
			return
		}
	}
}

func (s *Store) hear(message string) {
	if message == "" {
		s.waiters.tellAll()
		s.wanted.Tell("", "")
		s.health.look()
	} else if key, owner, ok := parseWanted(message); ok {
		s.wanted.Tell(key, owner)
	} else {
		s.waiters.tell(message)
	}
}

// messages is the part of a statement that sends messages to other processes: to those of the
// waiters whose turn it is, and to those whose leases are wanted. They arrive if and when the
// transaction is committed.
func (t *tx) messages() statement {
	var m statement
	if t.s.d != &postgres {
		return m
	}
	send := func(inbox, message string) {
		if inbox == "" || inbox == t.s.inbox() {
			return
		}
		if m.text != "" {
			m.text += ", "
		}
		m.text += "pg_notify(CAST(? AS text), CAST(? AS text))"
		m.args = append(m.args, inbox, message)
	}
	for _, w := range t.Woken {
		send(w.Inbox, w.Owner)
	}
	if w := t.Wanted; w != nil {
		send(w.Inbox, wantedMessage(w.Key, w.Owner))
	}
	return m
}

// tell tells this process of its own waiters and leases. The others got messages with the transaction.
func (s *Store) tell(st *keystate.State) {
	for _, w := range st.Woken {
		s.waiters.tell(w.Owner)
	}
	if w := st.Wanted; w != nil && w.Inbox == s.inbox() {
		s.wanted.Tell(w.Key, w.Owner)
	}
}
