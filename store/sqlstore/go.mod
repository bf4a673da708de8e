module github.com/keyturn/keyturn/store/sqlstore

go 1.25.0

require github.com/keyturn/keyturn v0.0.0

replace github.com/keyturn/keyturn => ../../
