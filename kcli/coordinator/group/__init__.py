"""kcli"""
