module github.com/keyturn/keyturn/pgx

go 1.25.0

require (
	github.com/jackc/pgx/v5 v5.7.6
	github.com/keyturn/keyturn v0.0.0-20261130214809-0402b4f2ba0a
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.2 // indirect
	golang.org/x/crypto v0.46.0 // indirect
	golang.org/x/sync v0.19.0 // indirect
	golang.org/x/text v0.32.0 // indirect
)

replace github.com/keyturn/keyturn => ../
