-- The catalogue's tables: the checkpoint of the cluster's wiring at one broker. Version 1.
-- SQLAlchemy makes them (schema.py); this is SQLite's form. PostgreSQL has BYTEA where this has BLOB, and all of it in a
-- schema manta_<store id>.
-- Ask what you like; change nothing: members of a cluster that know different wirings route differently, so a catalogue
-- whose rows are not those that were saved is refused.

-- Exchanges, the standard ones too: '' is the default exchange.
CREATE TABLE exchanges (
    name TEXT NOT NULL,
    type TEXT NOT NULL,                         -- direct, topic, fanout, headers
    arguments TEXT NOT NULL,                    -- JSON; bytes are {"$bytes": base64}, a name with a $ in front has two
    durable BOOLEAN NOT NULL,
    alternate TEXT,                             -- where a message goes that finds no queue here
    PRIMARY KEY (name),
    FOREIGN KEY(alternate) REFERENCES exchanges (name) DEFERRABLE INITIALLY DEFERRED
);

-- Brokers: the cluster's members, and those that have left.
CREATE TABLE members (
    name TEXT NOT NULL,
    position INTEGER,                           -- among those that vote on the wiring, from 0; NULL: has left
    incarnation BIGINT,                         -- of its log: the one that counts
    life BIGINT,                                -- of its process: the one that returned last
    PRIMARY KEY (name)
);

-- One row.
CREATE TABLE meta (
    id INTEGER NOT NULL,
    version INTEGER NOT NULL,                   -- of these tables
    store TEXT NOT NULL,                        -- id of the store that this belongs to
    opened BIGINT NOT NULL,                     -- how often it was; saves of an earlier opener have no effect
    wiring_index BIGINT,                        -- entries of the cluster stream up to here; NULL: never saved
    digest BIGINT,                              -- CRC32C of the rows and of what is below; NULL: made with the next save
    stream BLOB,                                -- msgpack: the checkpoint's other fields, in order
    rest BLOB,                                  -- msgpack: flow control, the supervisor in office, who uses which queue
    PRIMARY KEY (id),
    CONSTRAINT meta_has_one_row CHECK (id = 1)
);

CREATE TABLE queues (
    id TEXT NOT NULL,                           -- name#index of the entry that declared it
    name TEXT NOT NULL,
    arguments TEXT NOT NULL,                    -- as those of exchanges
    durable BOOLEAN NOT NULL,
    alternate TEXT,                             -- the exchange for messages that are rejected
    voters TEXT,                                -- JSON list: the brokers that voted when it was declared; NULL: not known
    PRIMARY KEY (id),
    UNIQUE (name),
    FOREIGN KEY(alternate) REFERENCES exchanges (name) DEFERRABLE INITIALLY DEFERRED
);

CREATE TABLE bindings (
    id TEXT NOT NULL,                           -- a digest of all the rest
    exchange TEXT NOT NULL,
    queue TEXT NOT NULL,                        -- by name: a queue that is declared anew is bound anew
    binding_key TEXT NOT NULL,                  -- a backslash is \\, and NUL is \0
    arguments TEXT NOT NULL,                    -- as those of exchanges
    PRIMARY KEY (id),
    FOREIGN KEY(exchange) REFERENCES exchanges (name) DEFERRABLE INITIALLY DEFERRED,
    FOREIGN KEY(queue) REFERENCES queues (name) DEFERRABLE INITIALLY DEFERRED
);

CREATE INDEX ix_bindings_exchange ON bindings (exchange);
CREATE INDEX ix_bindings_queue ON bindings (queue);
