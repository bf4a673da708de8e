package main

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/middleware/echo"
	"github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/store/memstore"
)

// Where a server is killed.
const (
	never        = "never"
	beforeCommit = "before the COMMIT"
	beforeAnswer = "before the answer"
)

const serverRole = "server"

// openDB opens the database. A transaction waits for others that write, for up to 5 s.
func openDB(file string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_txlock=immediate")
}

// server returns what this process does if it is a server; nil: it is the client.
func server(args []string) func(ctx context.Context, ready func(addr string)) error {
	if len(args) != 4 || args[0] != serverRole {
		return nil
	}
	return func(ctx context.Context, ready func(addr string)) error {
		return serve(ctx, args[1], args[2] == "true", args[3], ready)
	}
}

func serve(ctx context.Context, file string, guarded bool, crash string, ready func(addr string)) (err error) {
	db, err := openDB(file)
	if err != nil {
		return err
	}
	defer db.Close()
	eng, err := core.New(memstore.New())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close(context.WithoutCancel(ctx))) }()

	locks, err := lockecho.New(eng, lockhttp.Idempotency("POST /charges", customer, options(db, guarded)...))
	if err != nil {
		return err
	}
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.Server.ReadTimeout, e.Server.WriteTimeout = 10*time.Second, time.Minute
	e.Use(killedBeforeAnswer(crash))
	e.POST("/charges", charge(db, crash), locks.Middleware)
	if e.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	ready(e.Listener.Addr().String())
	stop := context.AfterFunc(ctx, func() { _ = e.Close() }) // the client has its answer
	defer stop()
	if err := e.Start(""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// options is the difference: one option, and the charge is made exactly once.
func options(db *sql.DB, guarded bool) []core.CallOption {
	if !guarded {
		return nil
	}
	return []core.CallOption{fence.WithDatabase(db, fence.SQLite)}
}

// customer is who asks. A real service has authenticated its caller.
func customer(*http.Request) string { return "ann" }

// charge writes a charge, in the transaction that also marks the request's key.
func charge(db *sql.DB, crash string) echo.HandlerFunc {
	return func(c echo.Context) error {
		var body struct {
			Customer string
			Cents    int
		}
		if err := c.Bind(&body); err != nil {
			return err
		}
		ctx := c.Request().Context()
		exec := db.ExecContext
		if tx, ok := fence.TxFrom(ctx); ok {
			exec = tx.ExecContext
		}
		if _, err := exec(ctx, `INSERT INTO charge (customer, cents) VALUES (?, ?)`, body.Customer, body.Cents); err != nil {
			return err
		}
		if crash == beforeCommit {
			kill()
		}
		return c.String(http.StatusCreated, "charged")
	}
}

// killedBeforeAnswer ends the process when everything is done, except that the client knows.
func killedBeforeAnswer(crash string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			if crash == beforeAnswer {
				kill()
			}
			return err
		}
	}
}

// kill is kill -9 from within.
func kill() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}
