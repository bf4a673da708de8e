package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/who"
)

// reasonOf is what is stored, logged and told to the holder: who does it, and why.
func reasonOf(operator, why string) string {
	const most = 64
	if len(operator) > most {
		operator = strings.ToValidUTF8(operator[:most], "")
	}
	return operator + ": " + why
}

// asked reads what both forms have. If it is not right, it answers.
func (c *Console) asked(w http.ResponseWriter, r *http.Request, operator string) (key, reason string, ok bool) {
	key, typed, why := c.source.known(r.PostForm.Get("key")), r.PostForm.Get("confirm"), strings.TrimSpace(r.PostForm.Get("reason"))
	reason = reasonOf(operator, why)
	switch {
	case driver.ValidateKey(key) != nil:
		http.Error(w, "there is no such key", http.StatusBadRequest)
	case why == "":
		c.refused(w, r, http.StatusBadRequest, "Nothing was done: say why.")
	case len(reason) > driver.MaxNoteBytes || !utf8.ValidString(reason):
		c.refused(w, r, http.StatusBadRequest, "Nothing was done: the reason is too long.")
	case typed != plain(key) && c.source.known(typed) != key: // as the page shows it, or the key
		c.refused(w, r, http.StatusBadRequest, "Nothing was done: what was typed is not the key.")
	default:
		return key, reason, true
	}
	return "", "", false
}

// force takes a key from the holders that the operator has seen, and from no others.
func (c *Console) force(w http.ResponseWriter, r *http.Request, operator string) {
	key, reason, ok := c.asked(w, r, operator)
	if !ok {
		return
	}
	var only []driver.Holder
	for _, text := range r.PostForm["lease"] {
		h, ok := parseLease(text)
		if !ok {
			http.Error(w, "there is no such lease", http.StatusBadRequest)
			return
		}
		only = append(only, h)
	}
	if len(only) == 0 { // without any, the store would end all
		c.refused(w, r, http.StatusBadRequest, "Nothing was done: no lease was chosen.")
		return
	}
	gone, err := c.source.ForceRelease(r.Context(), key, reason, only...)
	_ = c.poll.Refresh(r.Context(), key) // the poller would see it a moment later
	switch {
	case err != nil:
		c.failed(w, r, err)
	case len(gone) == 0:
		c.answer(w, r, http.StatusOK, "The key was free already.")
	default:
		var names []string
		for _, h := range gone[:min(len(gone), 5)] {
			names = append(names, who.Of(h.Owner).Label)
		}
		c.answer(w, r, http.StatusOK, fmt.Sprintf("The key was taken from %s (%s). The holder learns of it at its next renewal; the first waiter has it now.", strings.Join(names, ", "), some(len(gone), "lease")))
	}
}

// forget drops the record of a key.
func (c *Console) forget(w http.ResponseWriter, r *http.Request, operator string) {
	key, reason, ok := c.asked(w, r, operator)
	if !ok {
		return
	}
	was, err := c.source.Forget(r.Context(), key, reason)
	_ = c.poll.Refresh(r.Context(), key) // as above
	switch {
	case err != nil:
		c.failed(w, r, err)
	case was:
		c.answer(w, r, http.StatusOK, "The record was dropped. The next call with this key runs.")
	default:
		c.answer(w, r, http.StatusOK, "There was no record.")
	}
}

// failed says what went wrong, and whether it may have been done all the same.
func (c *Console) failed(w http.ResponseWriter, r *http.Request, err error) {
	var held *driver.HeldError
	switch {
	case errors.As(err, &held):
		c.refused(w, r, http.StatusConflict, "Nothing was done: "+who.Of(held.Holder).Label+" has the key by now. Look again.")
	case errors.Is(err, errForgotten):
		c.refused(w, r, http.StatusConflict, "Nothing was done: the key was not seen for long. Look again.")
	case errors.Is(err, driver.ErrOutcomeUnknown):
		c.refused(w, r, http.StatusGatewayTimeout, "The store did not answer. It may have been done: look again.")
	case errors.Is(err, driver.ErrInvalidOption):
		c.refused(w, r, http.StatusBadRequest, "Nothing was done: the reason has characters that are not allowed.")
	case errors.Is(err, driver.ErrUnavailable), errors.Is(err, driver.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		c.refused(w, r, http.StatusServiceUnavailable, "Nothing was done: the store does not answer.")
	case errors.Is(err, errors.ErrUnsupported):
		c.refused(w, r, http.StatusNotImplemented, "Nothing was done: this store can't do that.")
	default:
		c.refused(w, r, http.StatusInternalServerError, "It failed: "+err.Error())
	}
}

func (c *Console) refused(w http.ResponseWriter, r *http.Request, status int, text string) {
	c.servePage(w, r, c.pageNamed("key"), status, &notice{Bad: true, Text: text})
}

func (c *Console) answer(w http.ResponseWriter, r *http.Request, status int, text string) {
	c.servePage(w, r, c.pageNamed("key"), status, &notice{Text: text})
}
