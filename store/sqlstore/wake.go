package sqlstore

// Waker carries messages of PostgreSQL to this process, on a connection of its own. Package
// pgwake has one. It is safe for concurrent use.
type Waker interface {
	// Channel is the name of the channel that it listens to. It is of this process alone.
	Channel() string
	// Messages delivers what was sent to the channel. An empty message says that others may
	// have been lost: the connection broke, or was made anew.
	Messages() <-chan string
	// Server names the server that sends the messages, by a name that it has since it was started.
	// The error says why no messages arrive at present. It does no I/O. When the error comes or
	// goes, an empty message follows.
	Server() (string, error)
	// Close ends the connection, and closes the channel that Messages returns.
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
	_, err := s.cfg.waker.Server()
	return err == nil
}

// listen passes the messages of the waker on, until Close ends it.
func (s *Store) listen() {
	if s.cfg.waker == nil {
		return
	}
	messages := s.cfg.waker.Messages()
	go func() {
		for message := range messages {
			if message == "" {
				s.places.tellAll()
				s.tellWanted("", "")
				s.health.look()
			} else if w, ok := parseWant(message); ok {
				s.tellWanted(w.key, w.owner)
			} else {
				s.places.tell(message)
			}
		}
	}()
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
	for _, w := range t.woken {
		send(w.inbox, w.owner)
	}
	for _, w := range t.wanted {
		send(w.inbox, w.payload())
	}
	return m
}

// wake tells those waiters of this process whose turn it is.
func (s *Store) wake(woken []member) {
	for _, m := range woken {
		s.places.tell(m.owner)
	}
}
