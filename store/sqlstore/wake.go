package sqlstore

// Waker carries messages of PostgreSQL to this process, on a connection of its own. Package
// pgwake has one.
type Waker interface {
	// Channel is the name of the channel that it listens to. It is of this process alone.
	Channel() string
	// Messages delivers what was sent to the channel. An empty message says that others may
	// have been lost, for example because the connection was made anew.
	Messages() <-chan string
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

// listen passes the messages of the waker on, until Close ends it.
func (s *Store) listen() {
	if s.cfg.waker == nil {
		return
	}
	messages := s.cfg.waker.Messages()
	go func() {
		for owner := range messages {
			if owner == "" {
				s.places.tellAll()
			} else {
				s.places.tell(owner)
			}
		}
	}()
}

// messages is the part of a statement that sends messages to the processes of the waiters whose
// turn it is. They arrive if and when the transaction is committed.
func (t *tx) messages() statement {
	var m statement
	if t.s.d != &postgres {
		return m
	}
	own := t.s.inbox()
	for _, w := range t.woken {
		if w.inbox == "" || w.inbox == own {
			continue
		}
		if m.text != "" {
			m.text += ", "
		}
		m.text += "pg_notify(CAST(? AS text), CAST(? AS text))"
		m.args = append(m.args, w.inbox, w.owner)
	}
	return m
}

// wake tells those waiters of this process whose turn it is.
func (s *Store) wake(woken []member) {
	for _, m := range woken {
		s.places.tell(m.owner)
	}
}
