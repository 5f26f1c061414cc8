"""Security for brokers, clients and Spark: principals, TLS, JAAS, SASL mechanisms, the authorizer. Nearly all of this
package works without sockets.
"""
