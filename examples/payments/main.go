// Payments shows a charge that happens once, although the server crashes in the middle of it. It
// is an Echo service with an Idempotency-Key and a database.
//
//	go run ./examples/payments            # one charge
//	go run ./examples/payments -without   # the same crashes without fence.WithDatabase
//
// It starts the service in a process of its own, and a client sends one charge until it gets an
// answer. The first server is killed with SIGKILL after it wrote the charge, before the COMMIT.
// The second one is killed after the COMMIT, before the client got its answer. The third answers.
//
// It needs nothing but Go: the database is an SQLite file, and the locks are in memory. So a
// server that was killed leaves no lock and no record behind, and the mark in the database alone
// decides. With several servers, use a store that they share (store/redisstore).
//
// To read it, begin with server.go.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/keyturn/keyturn/examples/internal/fleet"
	"github.com/keyturn/keyturn/fence"
)

func main() {
	if run := server(os.Args[1:]); run != nil {
		os.Exit(fleet.Child(run))
	}
	without := flag.Bool("without", false, "charge without fence.WithDatabase, to see the difference")
	flag.Parse()
	if err := demonstrate(os.Stdout, !*without); err != nil {
		fmt.Fprintln(os.Stderr, "payments:", err)
		os.Exit(1)
	}
}

// demonstrate sends a charge to servers that crash, and tells how often it was made.
func demonstrate(out io.Writer, guarded bool) error {
	dir, err := os.MkdirTemp("", "payments")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "payments.db")
	db, err := openDB(file)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := migrate(ctx, db); err != nil {
		return err
	}
	for _, crash := range []string{beforeCommit, beforeAnswer, never} {
		answer, err := attempt(ctx, file, guarded, crash)
		if crash != never && err == nil {
			return fmt.Errorf("a server that should crash %s has answered", crash)
		}
		if crash == never && err != nil {
			return err
		}
		if crash != never {
			answer = "no answer: the server was killed " + crash
		}
		fmt.Fprintln(out, "POST /charges, Idempotency-Key: \"order-7\"  ->", answer)
	}
	var charges int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM charge`).Scan(&charges); err != nil {
		return err
	}
	fmt.Fprintln(out, "charges in the database:", charges)
	if guarded && charges != 1 {
		return errors.New("the charge was not made once")
	}
	return nil
}

// migrate makes the tables: the service's own, and those of package fence.
func migrate(ctx context.Context, db *sql.DB) error {
	statements, err := fence.Schema(fence.SQLite)
	if err != nil {
		return err
	}
	for _, s := range append(statements, `CREATE TABLE charge (customer TEXT, cents INTEGER)`) {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// attempt starts a server, sends it the charge, and ends it.
func attempt(ctx context.Context, file string, guarded bool, crash string) (answer string, err error) {
	servers := fleet.New(func(error) {}) // that a server ends is no surprise here
	defer func() {
		if stopped := servers.Stop(); crash == never {
			err = errors.Join(err, stopped)
		}
	}()
	addr, _, err := servers.Start(ctx, "the server", nil, serverRole, file, fmt.Sprint(guarded), crash)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/charges", strings.NewReader(`{"customer":"ann","cents":1999}`))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", `"order-7"`)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // it doesn't repeat requests by itself
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.Header.Get("Idempotent-Replayed") != "" {
		body = append(body, ", from the mark of the first"...)
	}
	return fmt.Sprint(resp.StatusCode, " ", string(body)), err
}
